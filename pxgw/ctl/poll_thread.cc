// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/poll_thread.h"

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

#include "pxgw/ctl/clock.h"

namespace pxgw {
namespace {

// About 50 us of polling: packets of one transfer seldom come further apart.
constexpr int kEmptyPollsBeforeSleep = 300;
constexpr pxio::Nanos kLongestSleep = std::chrono::milliseconds(100);
// Where a port has no interrupt, and so none that wakes.
constexpr pxio::Nanos kNap = std::chrono::microseconds(50);

void pin(const PollThreadOptions& o) {
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
              : std::string("the thread can't be given its CPUs"));
}

}  // namespace

PollThread::PollThread(pxio::Polled& polled, PollThreadOptions options)
    : polled_(polled),
      options_(std::move(options)),
      event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (event_fd_.get() < 0)
    throw std::runtime_error("no file descriptor is left for a thread; raise `ulimit -n`");
  for (const int fd : polled_.wait_fds()) {
    if (fd >= 0) {
      fds_.push_back({fd, POLLIN, 0});
    } else {
      all_wait_ = false;
    }
  }
  fds_.push_back({event_fd_.get(), POLLIN, 0});
  std::promise<void> started;
  std::future<void> result = started.get_future();
  // Signals are the main thread's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread(&PollThread::main, this, std::move(started));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  try {
    result.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

PollThread::~PollThread() { stop(); }

void PollThread::wake() noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(event_fd_.get(), &one, sizeof one);  // full: awake already
}

void PollThread::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  wake();
  thread_.join();
}

void PollThread::main(std::promise<void> started) {
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

void PollThread::loop() noexcept {
  int empty = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    if (polled_.poll_once(clock_now())) {
      empty = 0;
    } else if (!options_.sleeps || ++empty < kEmptyPollsBeforeSleep) {
      rte_pause();
    } else {
      sleep();
      empty = 0;
    }
  }
  polled_.drain(clock_now());
}

void PollThread::sleep() noexcept {
  polled_.before_sleep();
  const pxio::Nanos now = clock_now();
  if (!polled_.poll_once(now)) {
    pxio::Nanos wait = all_wait_ ? kLongestSleep : kNap;
    if (const auto deadline = polled_.next_deadline()) wait = std::clamp(*deadline - now, pxio::Nanos(0), wait);
    const timespec t = {.tv_sec = 0, .tv_nsec = wait.count()};
    ppoll(fds_.data(), fds_.size(), &t, nullptr);
    uint64_t count;
    [[maybe_unused]] const ssize_t r = read(event_fd_.get(), &count, sizeof count);
  }
  polled_.after_sleep(clock_now());
}

}  // namespace pxgw
