// SPDX-License-Identifier: BSD-3-Clause
// Notices ports that no longer send: a transmit queue that is offered packets and takes none. Control
// thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "pxio/dp/port.h"

namespace pxgw {

class TxWatchdog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPatience{5};

  // The port outlives the watchdog.
  void add(const std::string& name, const pxio::Port& port);
  // Lines for the log: a queue that has taken nothing of what it was offered for kPatience, once until it
  // sends again, and that it does.
  std::vector<std::string> look(Time now);

  // Of the port added as the index-th.
  bool stalled(size_t index) const;
  uint64_t stalls(size_t index) const { return ports_[index].stalls; }

 private:
  struct Queue {
    pxio::TxProgress last;
    Time since{};  // when it was first seen to refuse without taking
    bool refusing = false, stalled = false;
  };
  struct Watched {
    std::string name;
    const pxio::Port* port;
    std::vector<Queue> queues;
    uint64_t stalls = 0;
  };
  std::vector<Watched> ports_;
};

}  // namespace pxgw
