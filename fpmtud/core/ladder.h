// SPDX-License-Identifier: BSD-3-Clause
// Which sizes are tried, and what a round of probes consists of: a pure function of its RoundSpec,
// so that who asks for a round knows what is sent. Any thread.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "fpmtud/core/wire.h"

namespace fpmtud {

inline constexpr size_t kMaxProbes = 512;  // of one round
inline constexpr uint16_t kMaxSize = 65535;

// MTUs that real networks have, and some between so that no gap is wide. Ascending.
struct Rung {
  uint16_t size;
  const char* where;  // nullptr: fills a gap
};
std::span<const Rung> ladder();

struct Packet {
  uint16_t size = 0;
  bool fragmentable = false;
};

// A packet's place is its sequence number. The last is a small one, which bears kLast: what is
// missing when it has arrived was lost, is too large or has been overtaken.
using Round = std::vector<Packet>;

// kFull: twice, all rungs above `low` and below `top`, and `top`; on IPv4 a fragmentable probe of
// `top`
//   before and after them.
// kConfirm: twice, `low` (it is known to pass, so its loss is loss), the rungs between, and `high`;
// on
//   IPv4 a fragmentable probe of `top`.
// kEverySize: `low` to `high`, twice if they are few.
// kKnock: the last packet alone.
// Sizes outside floor and `top` are left out, and what exceeds kMaxProbes.
Round plan_round(const RoundSpec& spec, Family family);

}  // namespace fpmtud
