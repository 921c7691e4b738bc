// SPDX-License-Identifier: BSD-3-Clause
// What a gateway may make of a flow's packets, written down without regard to how it does it: each
// packet that leaves must be explained by those that came, in their order, none left over.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "tests/support/decode.h"

namespace test {

// A packet as it went in.
struct Input {
  Decoded d;
  std::chrono::nanoseconds time{0};
  bool known_bad = false;    // the port said that its checksum is wrong
  bool came_merged = false;  // a segment of what came as one packet: its IP ID is anyone's guess
};

struct MergeRules {
  size_t max_ip_len = 9000;  // of what is made by merging; below two segments: nothing may merge
  std::chrono::nanoseconds hold{0};
};
struct SplitRules {
  size_t mtu = 1500;
  size_t mss = 1460;  // without options
  bool cwr_everywhere = false;
};

// Empty where `out` is what merging may make of `in`; else what is wrong.
std::string explain_merge(const std::vector<Input>& in, const std::vector<Decoded>& out,
                          const MergeRules& rules);
// The same for splitting.
std::string explain_split(const std::vector<Input>& in, const std::vector<Decoded>& out,
                          const SplitRules& rules);

}  // namespace test
