// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/worker_watchdog.h"

#include <fmt/format.h>

namespace pxgw {

std::vector<std::string> WorkerWatchdog::look(const std::vector<uint64_t>& polls, Time now) {
  std::vector<std::string> lines;
  workers_.resize(polls.size());
  for (size_t i = 0; i < polls.size(); ++i) {
    Watched& w = workers_[i];
    if (!w.seen || w.polls != polls[i]) {
      if (w.stalled) {
        lines.push_back(fmt::format("worker {} goes on, after {:.1f} s", i,
                                    std::chrono::duration<double>(now - w.since).count()));
      }
      w = {.polls = polls[i], .since = now, .seen = true, .stalled = false, .stalls = w.stalls};
    } else if (!w.stalled && now - w.since >= kPatience) {
      w.stalled = true;
      ++w.stalls;
      lines.push_back(fmt::format(
          "worker {} has stood still for {:.1f} s and forwards nothing; has something else taken its CPU, or is it "
          "stopped?", i, std::chrono::duration<double>(now - w.since).count()));
    }
  }
  return lines;
}

}  // namespace pxgw
