// SPDX-License-Identifier: BSD-3-Clause
// In which order, and when, the segments of many flows arrive. Seeded: the same options give the same
// arrivals.
//
// Runs: round robin, `run` segments of a flow at a time; no pauses.
//
// Mix: what a border link carries. Flow k of F has weight 1 / (k + 1)^0.9 (Zipf). A flow sends messages:
// their sizes are Pareto (shape 1.2, 64 KB ... 50 MB), and the last segment of each bears PSH. It sends a
// message in trains, as a window opens: 64 to 512 segments, uniform; inside a train segments follow each
// other at the speed of the sender's bottleneck, drawn for each flow from `gbps`. Trains
// of all flows start as a Poisson process, whose flow is drawn by weight among those that are idle, at
// the rate that offers the wanted load. All meet on one line and queue there in order of arrival.
#pragma once
#include <cstdint>
#include <memory>
#include <queue>
#include <random>
#include <vector>

namespace bench {

struct Arrival {
  uint64_t at_ps = 0;  // when the segment's last bit has come
  uint32_t flow = 0;
  bool push = false;
};

class Arrivals {
 public:
  virtual ~Arrivals() = default;
  virtual Arrival next() = 0;
};

std::unique_ptr<Arrivals> runs(uint32_t flows, uint32_t run);

struct MixOptions {
  uint32_t flows = 16384;
  double pkts_per_s = 10e6;   // offered
  double line_gbps = 400;
  std::vector<double> gbps{10, 25, 40, 100};
  uint64_t seed = 1;
};
std::unique_ptr<Arrivals> mix(const MixOptions& options);

}  // namespace bench
