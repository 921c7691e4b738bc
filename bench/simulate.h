// SPDX-License-Identifier: BSD-3-Clause
// Yield and delay under a load, in simulated time: the mix arrives at a given rate, the worker takes what
// is there, 32 packets at a time, and each takes it a given time. Repeatable to the packet, whatever else
// the machine does; the time that a packet takes is what `pxbench run` measures.
#pragma once
#include <cstdint>
#include <vector>

#include "pxio/dp/units.h"

namespace bench {

struct LoadOptions {
  uint32_t flows = 16384;
  pxio::Nanos hold = std::chrono::microseconds(50);
  double pkts_per_s = 10e6;  // offered
  double ns_per_packet = 80; // that the worker needs
  uint32_t packets = 1u << 20;
  uint64_t seed = 1;
  std::vector<double> gbps{10, 25, 40, 100};  // of the senders' bottlenecks
  double line_gbps = 400;    // of the line on which all of it arrives
  bool lone = false;  // instead of the mix: lone segments, one of each flow in turn
};

struct Load {
  double yield = 0;
  double delay_us[3] = {};   // from arrival until the packet has left: median, 99th percentile, largest
  double mean_size = 0;      // IP bytes of the packets towards the inside
};

// Throws std::runtime_error where memory is short.
Load simulate(const LoadOptions& options);

}  // namespace bench
