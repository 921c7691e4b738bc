// SPDX-License-Identifier: BSD-3-Clause
// Notices workers that stand still: whose count of polls doesn't rise, though it does at least every 100 ms
// even where they sleep. Control thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace pxgw {

class WorkerWatchdog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPatience{2};

  // What each worker has polled so far, always of the same number of workers. Returns lines for the log:
  // that one has stood still for kPatience, once, and that it goes on, with how long it stood.
  std::vector<std::string> look(const std::vector<uint64_t>& polls, Time now);

  bool stalled(size_t worker) const { return worker < workers_.size() && workers_[worker].stalled; }
  uint64_t stalls(size_t worker) const { return worker < workers_.size() ? workers_[worker].stalls : 0; }

 private:
  struct Watched {
    uint64_t polls = 0;
    Time since{};  // when the count was first seen
    bool seen = false, stalled = false;
    uint64_t stalls = 0;
  };
  std::vector<Watched> workers_;
};

}  // namespace pxgw
