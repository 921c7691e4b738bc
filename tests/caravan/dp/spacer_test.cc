// SPDX-License-Identifier: BSD-3-Clause
// Datagrams of a caravan leave with the pause between them that was set, each pair in its order, none later
// than the limit, and none stays.
#include "caravan/dp/spacer.h"

#include <catch2/catch.hpp>

#include "tests/support/eal.h"
#include "tests/support/ports.h"

using namespace test;
using namespace std::chrono_literals;

namespace {

struct SpacerBed {
  explicit SpacerBed(uint32_t capacity, pxio::Nanos spacing) : tx(port, 0), spacer(capacity, tx, count) {
    spacer.set_spacing(spacing);
  }
  // A datagram that its size tells from others.
  void push(uint64_t pair, size_t size) {
    spacer.push(to_mbuf(udp(Lower{}, 1, 2, size), pools().buffers()), pair, now);
    tx.flush();
  }
  void at(pxio::Nanos t) {
    now = t;
    spacer.flush_expired(now);
    tx.flush();
  }
  std::vector<size_t> left() {
    tx.flush();
    std::vector<size_t> r;
    for (const Decoded& d : port.take()) r.push_back(d.l4.size() - 8);
    return r;
  }
  NoLeak none;
  CollectPort port;
  pxio::TxBuffer tx;
  caravan::Counters count;
  caravan::Spacer spacer;
  pxio::Nanos now = 1s;
};

using Sizes = std::vector<size_t>;

}  // namespace

TEST_CASE("spacer: without spacing everything leaves at once", "[caravan]") {
  SpacerBed b(8, 0us);
  for (size_t i = 0; i < 20; ++i) b.push(7, i);
  CHECK(b.left().size() == 20);
  CHECK(b.spacer.held() == 0);
  CHECK(b.count.spaced == 0);
  CHECK(!b.spacer.next_deadline());
}

TEST_CASE("spacer: a pair's datagrams follow each other by the pause; pairs don't wait for each other", "[caravan]") {
  SpacerBed b(8, 10us);
  for (size_t i = 0; i < 3; ++i) {
    b.push(1, 100 + i);
    b.push(2, 200 + i);
  }
  CHECK(b.left() == Sizes{100, 200});
  CHECK(b.spacer.held() == 4);
  CHECK(b.count.spaced == 4);
  CHECK(b.spacer.next_deadline() == 1s + 10us);
  CHECK(b.spacer.holds(1, b.now));
  CHECK(!b.spacer.holds(3, b.now));
  b.at(1s + 9999ns);
  CHECK(b.left().empty());
  b.at(1s + 10us);
  CHECK(b.left() == Sizes{101, 201});
  b.at(1s + 20us);
  CHECK(b.left() == Sizes{102, 202});
  CHECK(b.spacer.held() == 0);
  // Behind the last one's place, and later without a wait.
  b.push(1, 103);
  CHECK(b.left().empty());
  b.at(1s + 30us);
  CHECK(b.left() == Sizes{103});
  b.at(1s + 40us);
  b.push(1, 104);
  CHECK(b.left() == Sizes{104});
}

TEST_CASE("spacer: nobody waits for longer than the limit, and the order stays", "[caravan]") {
  SpacerBed b(64, 1ms);
  for (size_t i = 0; i < 6; ++i) b.push(1, i);
  CHECK(b.left() == Sizes{0});
  b.at(1s + caravan::Spacer::kMostDelay - 1ns);
  CHECK(b.left() == Sizes{1});
  b.at(1s + caravan::Spacer::kMostDelay);
  CHECK(b.left() == Sizes{2, 3, 4, 5});
}

TEST_CASE("spacer: full, it sends all that wait and takes the next; its end frees what waits", "[caravan]") {
  SpacerBed b(2, 100us);
  for (size_t i = 0; i < 4; ++i) b.push(1, i);
  CHECK(b.left() == Sizes{0, 1, 2});
  CHECK(b.spacer.held() == 1);
  b.spacer.flush_all();
  CHECK(b.left() == Sizes{3});
  b.push(1, 4);
  CHECK(b.spacer.held() == 1);  // and the buffers are counted when the bed goes
}

TEST_CASE("spacer: without room nobody waits", "[caravan]") {
  SpacerBed nothing(0, 100us);
  for (size_t i = 0; i < 3; ++i) nothing.push(1, i);
  CHECK(nothing.left() == Sizes{0, 1, 2});
}
