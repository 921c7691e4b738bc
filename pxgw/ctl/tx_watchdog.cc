// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/tx_watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pxgw {

void TxWatchdog::add(const std::string& name, const pxio::Port& port) {
  Watched w{.name = name, .port = &port};
  for (uint16_t q = 0; q < port.queues(); ++q) w.queues.push_back({.last = port.tx_progress(q)});
  ports_.push_back(std::move(w));
}

std::vector<std::string> TxWatchdog::look(Time now) {
  std::vector<std::string> lines;
  for (Watched& w : ports_) {
    for (uint16_t i = 0; i < w.queues.size(); ++i) {
      Queue& q = w.queues[i];
      const pxio::TxProgress before = std::exchange(q.last, w.port->tx_progress(i));
      if (q.last.taken != before.taken) {
        if (q.stalled) lines.push_back(fmt::format("port {}: queue {} sends again", w.name, i));
        q.refusing = q.stalled = false;
      } else if (q.last.refused != before.refused) {
        if (!std::exchange(q.refusing, true)) q.since = now;
        if (q.stalled || now - q.since < kPatience) continue;
        q.stalled = true;
        ++w.stalls;
        lines.push_back(fmt::format(
            "port {}: queue {} has sent nothing for {} s; is its link up? If it is, try `offloads: {{tso: off}}`",
            w.name, i, kPatience.count()));
      }
    }
  }
  return lines;
}

bool TxWatchdog::stalled(size_t index) const {
  const auto& queues = ports_[index].queues;
  return std::any_of(queues.begin(), queues.end(), [](const Queue& q) { return q.stalled; });
}

}  // namespace pxgw
