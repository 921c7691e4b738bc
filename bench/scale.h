// SPDX-License-Identifier: BSD-3-Clause
// One worker against two that share nothing but the machine, each on a core of its own, and what the fan-out
// that feeds them costs. The work is kMerge, IPv4, one by one, everything in DRAM when a worker begins.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bench {

struct ScaleOptions {
  uint32_t flows = 1024;
  uint32_t rounds = 5;
  uint32_t packets = 1u << 18;  // a round, of one worker
  int cpus[2] = {0, 1};
};

struct Scale {
  // Cycles a packet, by subject, a round each: "1 worker" with all flows, on either core; "alone", two
  // workers with half the flows each, one after the other; "together", the same at the same time; "fan-out".
  std::map<std::string, std::vector<double>> cycles;
  std::vector<double> speed_up;  // packets a second of two together, to those of one
};

// Throws std::runtime_error where memory is short or packets were lost.
Scale measure_scale(const ScaleOptions& options);

}  // namespace bench
