// SPDX-License-Identifier: BSD-3-Clause
// What is known of paths: who may raise and lower it, how long it lives, when a probe is due.
#include "pxgw/dp/pmtu_cache.h"

#include <catch2/catch.hpp>

using namespace pxgw;
using namespace std::chrono_literals;

namespace {

PathKey host(uint32_t n) { return {.addr = {n, 0}, .version = 4}; }

// Time in seconds.
struct Cache : PmtuCache {
  explicit Cache(uint32_t capacity = 64) : PmtuCache(capacity) { set_times(600s, 300s); }
  static pxio::Ticks at(double s) {
    return pxio::to_ticks(std::chrono::duration_cast<pxio::Nanos>(std::chrono::duration<double>(1000 + s)));
  }
  uint16_t mtu(uint32_t n, double s) const { return find(host(n), at(s)).mtu; }
  bool confirmed(uint32_t n, double s) const { return find(host(n), at(s)).confirmed; }
  bool due(uint32_t n, double s) const { return wants_probe(host(n), at(s)); }
};

}  // namespace

TEST_CASE("paths: errors lower, only a probe raises") {
  Cache c;
  CHECK(c.mtu(1, 0) == 0);
  CHECK(!c.lower(host(1), 1400, c.at(0)));
  CHECK(!c.lower(host(1), 1450, c.at(1)));
  CHECK(c.mtu(1, 2) == 1400);
  CHECK(!c.confirmed(1, 2));
  c.confirm(host(1), 9000, c.at(3));
  CHECK(c.mtu(1, 4) == 9000);
  CHECK(c.confirmed(1, 4));
  CHECK(!c.lower(host(1), 9000, c.at(5)));
  CHECK(c.confirmed(1, 5));
  CHECK(c.lower(host(1), 1500, c.at(6)));
  CHECK(c.mtu(1, 6) == 1500);
  CHECK(!c.confirmed(1, 6));
  CHECK(c.mtu(2, 6) == 0);
  CHECK(c.find({.addr = {1, 0}, .version = 6}, c.at(6)).mtu == 0);
}

TEST_CASE("paths: values age, and silence neither gives nor takes one") {
  Cache c;
  c.confirm(host(1), 9000, c.at(0));
  c.lower(host(2), 1400, c.at(0));
  c.silent(host(1), c.at(10));
  c.silent(host(3), c.at(10));
  CHECK(c.mtu(1, 11) == 9000);
  CHECK(c.mtu(3, 11) == 0);
  CHECK(c.mtu(1, 599) == 9000);
  CHECK(c.mtu(1, 601) == 0);
  CHECK(c.mtu(2, 601) == 0);
  // What has aged doesn't bind what comes next.
  c.lower(host(2), 1450, c.at(700));
  CHECK(c.mtu(2, 700) == 1450);
  CHECK(!c.lower(host(1), 1500, c.at(701)));
}

TEST_CASE("paths: a probe is due once, then when half of a value's time has gone or silence has lasted") {
  Cache c;
  CHECK(c.due(1, 0));
  c.pending(host(1), c.at(0));
  CHECK(!c.due(1, 29));
  CHECK(c.due(1, 31));  // control had too much to do
  c.confirm(host(1), 9000, c.at(40));
  CHECK(!c.due(1, 339));
  CHECK(c.due(1, 341));
  c.silent(host(2), c.at(0));
  CHECK(!c.due(2, 299));
  CHECK(c.due(2, 301));
  c.lower(host(3), 1400, c.at(0));
  CHECK(c.due(3, 0));
  // Called into question just after it was measured: soon, but not at once.
  c.lower(host(1), 1500, c.at(40.5));
  CHECK(!c.due(1, 40.9));
  CHECK(c.due(1, 41.1));
  // A lost packet is less of a reason.
  c.confirm(host(4), 9000, c.at(0));
  CHECK(!c.wants_probe_in_doubt(host(4), c.at(9)));
  CHECK(c.wants_probe_in_doubt(host(4), c.at(11)));
  c.silent(host(5), c.at(0));
  CHECK(!c.wants_probe_in_doubt(host(5), c.at(11)));
}

TEST_CASE("paths: strangers displace the oldest, never more than the table holds") {
  Cache c(8);
  for (uint32_t n = 0; n < 1000; ++n) c.lower(host(n), 1400, c.at(n));
  uint32_t left = 0;
  for (uint32_t n = 0; n < 1000; ++n) left += c.mtu(n, 1000) != 0;
  CHECK(left <= 8);
  CHECK(c.mtu(999, 1000) == 1400);
  c.forget(host(999));
  CHECK(c.mtu(999, 1000) == 0);
  c.clear();
  for (uint32_t n = 0; n < 1000; ++n) REQUIRE(c.mtu(n, 1000) == 0);
}
