// SPDX-License-Identifier: BSD-3-Clause
// What control and workers hand each other: all of it, once, in order; full rings lose what doesn't fit, and
// say so.
#include "pxgw/dp/mailbox.h"

#include <catch2/catch.hpp>
#include <thread>

using namespace pxgw;

TEST_CASE("mailbox: a full ring refuses, counts, and takes again once there is room") {
  Mailbox box(4, 4);
  Command c;
  CHECK(box.empty());
  for (uint16_t i = 0; i < 3; ++i) {
    c.mtu = i;
    CHECK(box.send(c));
  }
  c.mtu = 3;
  CHECK(!box.send(c));
  CHECK(box.commands_dropped() == 1);
  CHECK(!box.empty());
  Command got;
  REQUIRE(box.take(got));
  CHECK(got.mtu == 0);
  CHECK(box.send(c));
  for (uint16_t want = 1; want <= 3; ++want) {
    REQUIRE(box.take(got));
    CHECK(got.mtu == want);
  }
  CHECK(!box.take(got));

  Report r;
  for (int i = 0; i < 5; ++i) box.report(r);
  CHECK(box.reports_dropped() == 2);
  int taken = 0;
  while (box.take(r)) ++taken;
  CHECK(taken == 3);
}

TEST_CASE("mailbox: two threads exchange without loss or disorder") {
  Mailbox box(64, 64);
  constexpr uint32_t kCount = 200000;
  std::thread worker([&box] {
    for (uint32_t n = 0; n < kCount;) {
      Command c;
      if (box.empty() || !box.take(c)) {
        std::this_thread::yield();
        continue;
      }
      Report r;
      r.to = c.to;
      r.at = pxio::Nanos(n++);
      box.report(r);
    }
  });
  uint32_t sent = 0, answered = 0;
  bool in_order = true;
  while (answered + box.reports_dropped() < kCount) {
    Command c;
    c.to.addr[0] = sent;
    // Never more under way than the way back takes.
    if (sent < kCount && sent - answered < 32 && box.send(c)) ++sent;
    Report r;
    bool any = false;
    while (box.take(r)) {
      in_order = in_order && r.to.addr[0] == answered && r.at.count() == answered;
      ++answered;
      any = true;
    }
    if (!any) std::this_thread::yield();
  }
  worker.join();
  CHECK(in_order);
  CHECK(answered == kCount);
  CHECK(box.reports_dropped() == 0);
}
