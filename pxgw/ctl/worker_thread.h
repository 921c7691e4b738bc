// SPDX-License-Identifier: BSD-3-Clause
// The thread that drives a worker: reads the clock once per poll, and sleeps where that is wanted.
#pragma once
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pxgw/dp/worker.h"

namespace pxgw {

struct WorkerThreadOptions {
  std::string name;             // at most 15 characters, for ps and perf
  std::optional<uint16_t> cpu;  // to run on, alone
  cpu_set_t cpus;               // to run on, where no `cpu` is given
  std::vector<int> wait_fds;    // empty: spins
};

class WorkerThread {
 public:
  // Starts the thread; throws std::runtime_error if it can't run as asked.
  WorkerThread(Worker& worker, WorkerThreadOptions options);
  ~WorkerThread();  // stop() if that wasn't called
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  void wake() noexcept;  // makes a sleeping worker do its housekeeping now
  void stop();           // drains the worker and ends the thread

  Worker& worker() noexcept { return worker_; }
  const Worker& worker() const noexcept { return worker_; }

 private:
  void main(std::promise<void> started);
  void loop() noexcept;
  void sleep(pxio::Nanos now) noexcept;

  Worker& worker_;
  const WorkerThreadOptions options_;
  int event_fd_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace pxgw
