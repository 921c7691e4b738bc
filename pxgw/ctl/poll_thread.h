// SPDX-License-Identifier: BSD-3-Clause
// The thread that drives a worker, or the fan-out: reads the clock once per poll, and sleeps where that is
// wanted.
#pragma once
#include <poll.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pxio/dp/fd.h"
#include "pxio/dp/polled.h"

namespace pxgw {

struct PollThreadOptions {
  std::string name;             // at most 15 characters, for ps and perf
  std::optional<uint16_t> cpu;  // to run on, alone
  cpu_set_t cpus;               // to run on, where no `cpu` is given
  bool sleeps = false;          // where nothing comes in; else it spins
};

class PollThread {
 public:
  // Starts the thread; throws std::runtime_error if it can't run as asked.
  PollThread(pxio::Polled& polled, PollThreadOptions options);
  ~PollThread();  // stop() if that wasn't called
  PollThread(const PollThread&) = delete;
  PollThread& operator=(const PollThread&) = delete;

  void wake() noexcept;  // ends a sleep
  void stop();           // drains and ends the thread

 private:
  void main(std::promise<void> started);
  void loop() noexcept;
  void sleep() noexcept;

  pxio::Polled& polled_;
  const PollThreadOptions options_;
  pxio::Fd event_fd_;
  std::vector<pollfd> fds_;  // to sleep on, ours among them
  bool all_wait_ = true;   // for all that can come there is a descriptor
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace pxgw
