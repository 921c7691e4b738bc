// SPDX-License-Identifier: BSD-3-Clause
// Random TCP traffic as a list of small steps, so that a failing list can be shrunk.
#pragma once
#include <iosfwd>
#include <vector>

#include "pxio/dp/units.h"
#include "tests/support/flow.h"

namespace test {

inline constexpr int kFlows = 6;

struct Step {
  int flow;       // 0 ... kFlows - 1
  int kind;       // 0 ... 99: what is sent, see traffic.cc
  uint32_t dice;  // all else
};
std::ostream& operator<<(std::ostream& os, const Step& s);

struct Sent {
  pxio::Direction dir;
  int flow;
  Frame frame;
  pxio::Nanos wait;   // before it
  bool new_burst;
  std::vector<Frame> parts = {};  // the segments of a packet that comes merged; else none
};

// A flow of the random traffic, and what its handshake said.
struct Peer {
  Flow flow;
  bool opened;          // its handshake is seen
  size_t merge_max;     // IP bytes
  size_t split_mtu, split_mss;
  bool cwr_everywhere;
};
std::vector<Peer> make_peers();
std::vector<Sent> make_traffic(const std::vector<Peer>& peers, const std::vector<Step>& steps);

}  // namespace test
