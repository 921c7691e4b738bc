// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/worker_thread.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <rte_lcore.h>
#include <rte_pause.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace pxgw {
namespace {

// About 50 us of polling: packets of one transfer seldom come further apart.
constexpr int kEmptyPollsBeforeSleep = 300;
constexpr pxio::Nanos kLongestSleep = std::chrono::milliseconds(100);

pxio::Nanos clock_now() noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

void pin(const WorkerThreadOptions& o) {
  cpu_set_t set = o.cpus;
  if (o.cpu) {
    CPU_ZERO(&set);
    CPU_SET(*o.cpu, &set);
  }
  if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0)
    throw std::runtime_error(
        o.cpu ? fmt::format(
                    "cpus: this process may not use CPU {}; give another one, or leave the key out",
                    *o.cpu)
              : std::string("the worker can't be given its CPUs"));
}

}  // namespace

WorkerThread::WorkerThread(Worker& worker, WorkerThreadOptions options)
    : worker_(worker),
      options_(std::move(options)),
      event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (event_fd_ < 0)
    throw std::runtime_error("no file descriptor is left for a worker; raise `ulimit -n`");
  std::promise<void> started;
  std::future<void> result = started.get_future();
  // Signals are the main thread's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread(&WorkerThread::main, this, std::move(started));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  try {
    result.get();
  } catch (...) {
    thread_.join();
    close(event_fd_);
    throw;
  }
}

WorkerThread::~WorkerThread() {
  stop();
  close(event_fd_);
}

void WorkerThread::wake() noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(event_fd_, &one, sizeof one);  // full: awake already
}

void WorkerThread::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  wake();
  thread_.join();
}

void WorkerThread::main(std::promise<void> started) {
  try {
    pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
    pin(options_);
    // Gives the thread its caches of buffers.
    if (rte_thread_register() != 0)
      throw std::runtime_error(fmt::format(
          "DPDK takes no further thread, it has {}; give fewer workers", rte_lcore_count()));
    // Sleeps end within microseconds of the hold limit, not within the usual 50.
    prctl(PR_SET_TIMERSLACK, 1);
  } catch (...) {
    started.set_exception(std::current_exception());
    return;
  }
  started.set_value();
  loop();
  rte_thread_unregister();
}

void WorkerThread::loop() noexcept {
  int empty = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    const pxio::Nanos now = clock_now();
    if (worker_.poll_once(now)) {
      empty = 0;
    } else if (options_.wait_fds.empty() || ++empty < kEmptyPollsBeforeSleep) {
      rte_pause();
    } else {
      sleep(now);
      empty = 0;
    }
  }
  worker_.drain(clock_now());
}

void WorkerThread::sleep(pxio::Nanos now) noexcept {
  static constexpr size_t kMaxFds = 2 * 16 + 1;  // two ports of kMaxPairs pairs, and ours
  pollfd fds[kMaxFds];
  const size_t n = std::min(options_.wait_fds.size(), kMaxFds - 1);
  for (size_t i = 0; i < n; ++i) fds[i] = {options_.wait_fds[i], POLLIN, 0};
  fds[n] = {event_fd_, POLLIN, 0};

  pxio::Nanos wait = kLongestSleep;
  if (const auto deadline = worker_.next_deadline())
    wait = std::clamp(*deadline - now, pxio::Nanos(0), wait);
  // What the last polls counted shows while the worker sleeps, too.
  worker_.publish();
  const timespec t = {.tv_sec = 0, .tv_nsec = wait.count()};
  ppoll(fds, n + 1, &t, nullptr);
  if (fds[n].revents != 0) {
    uint64_t count;
    [[maybe_unused]] const ssize_t r = read(event_fd_, &count, sizeof count);
    worker_.housekeeping(clock_now());
  }
}

}  // namespace pxgw
