// SPDX-License-Identifier: BSD-3-Clause
// What control and workers hand each other: all of it, once, in order; full rings lose what doesn't fit, and
// say so.
#include "pxgw/dp/mailbox.h"

#include <catch2/catch.hpp>

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
