// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/worker_watchdog.h"

#include <catch2/catch.hpp>

using namespace std::chrono_literals;
using pxgw::WorkerWatchdog;

TEST_CASE("watchdog: a worker that stands still is reported once, and when it goes on") {
  WorkerWatchdog dog;
  WorkerWatchdog::Time t{};
  std::vector<uint64_t> polls = {0, 0};
  // Worker 0 is well all the time.
  const auto second = [&](uint64_t more) {
    polls[0] += 1000;
    polls[1] += more;
    return dog.look(polls, t += 1s);
  };
  for (int i = 0; i < 5; ++i) CHECK(second(1).empty());
  CHECK(second(0).empty());  // between two looks it may not have counted yet
  const auto lines = second(0);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("worker 1 has stood still for 2.0 s"));
  CHECK(dog.stalled(1));
  CHECK_FALSE(dog.stalled(0));
  for (int i = 0; i < 8; ++i) CHECK(second(0).empty());
  CHECK(dog.stalls(1) == 1);
  const auto again = second(1);
  REQUIRE(again.size() == 1);
  CHECK_THAT(again[0], Catch::Contains("worker 1 goes on, after 11.0 s"));
  CHECK_FALSE(dog.stalled(1));
  second(0);
  CHECK(second(0).size() == 1);
  CHECK(dog.stalls(1) == 2);
  CHECK(dog.stalls(0) == 0);
}

TEST_CASE("watchdog: workers that never polled are noticed, too") {
  WorkerWatchdog dog;
  WorkerWatchdog::Time t{};
  size_t lines = 0;
  for (int i = 0; i < 4; ++i) lines += dog.look({0}, t += 1s).size();
  CHECK(lines == 1);
}
