// SPDX-License-Identifier: BSD-3-Clause
// Ports that stop sending, and ports with nothing to do.
#include "pxgw/ctl/tx_watchdog.h"

#include <catch2/catch.hpp>

#include "pxgw/dp/worker.h"
#include "pxio/ctl/ethdev_setup.h"
#include "pxio/dp/tx_buffer.h"
#include "tests/support/bed.h"

using namespace test;
using namespace std::chrono_literals;
using pxgw::TxWatchdog;

namespace {

class FakePort : public CollectPort {
 public:
  uint16_t queues() const noexcept override { return 2; }
  pxio::TxProgress tx_progress(uint16_t q) const noexcept override { return progress[q]; }
  void idle(uint16_t) noexcept override { ++idles; }
  uint16_t rx_burst(uint16_t, rte_mbuf** pkts, uint16_t) noexcept override {
    if (!comes) return 0;
    pkts[0] = comes.release();
    return 1;
  }
  pxio::TxProgress progress[2];
  pxio::PktPtr comes;
  int idles = 0;
};

}  // namespace

TEST_CASE("watchdog: a queue that takes nothing is reported once, and when it sends again") {
  FakePort port;
  TxWatchdog dog;
  dog.add("eth0", port);
  TxWatchdog::Time t{};
  const auto second = [&](uint64_t taken, uint64_t refused) {
    port.progress[1].taken += taken;
    port.progress[1].refused += refused;
    port.progress[0].taken += 10;  // the other queue is well
    return dog.look(t += 1s);
  };
  CHECK(second(5, 3).empty());  // now and then a full ring is nothing
  for (int i = 0; i < 5; ++i) CHECK(second(0, 3).empty());
  CHECK_FALSE(dog.stalled(0));
  const auto lines = second(0, 1);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("port eth0: queue 1 has sent nothing for 5 s"));
  CHECK(dog.stalled(0));
  for (int i = 0; i < 20; ++i) CHECK(second(0, 1).empty());
  CHECK(dog.stalls(0) == 1);
  REQUIRE(second(1, 9).size() == 1);
  CHECK_FALSE(dog.stalled(0));
  for (int i = 0; i < 20; ++i) CHECK(second(0, 0).empty());  // nothing to send isn't a stall
}

TEST_CASE("watchdog: a DPDK port whose ring stays full is noticed") {
  NoLeak guard;
  auto port = pxio::open_ethdev({.device = "net_ring0", .buffers = pools().buffers(), .descriptors = 256});
  TxWatchdog dog;
  dog.add("net_ring0", *port);
  TxWatchdog::Time t{};
  size_t lines = 0;
  const auto send = [&] {
    pxio::TxBuffer tx(*port, 0);
    for (int i = 0; i < 64; ++i) tx.push(to_mbuf(tcp4().data(10), pools().buffers()));
    tx.flush();
    return tx.dropped_full();
  };
  while (send() == 0) lines += dog.look(t += 1s).size();
  CHECK(lines == 0);
  for (int i = 0; i < 8; ++i, send()) lines += dog.look(t += 1s).size();
  CHECK(lines == 1);
  CHECK(dog.stalled(0));
}

TEST_CASE("worker: its ports may tidy up once nothing comes any more") {
  NoLeak guard;
  FakePort outside, inside;
  pxgw::PolicySet policies;
  policies.pairs.resize(1);
  pxgw::Worker worker(0, {{&outside, &inside}}, policies, small_capacity(), pools().buffers());
  pxio::Nanos now = 1s;
  const auto ms = [&](bool packet) {
    if (packet) inside.comes = to_mbuf(tcp4().data(10), pools().buffers());
    worker.poll_once(now += 1ms);
  };
  ms(true);
  const int before = inside.idles;
  for (int i = 0; i < 10; ++i) ms(true);
  CHECK(inside.idles == before);
  for (int i = 0; i < 10; ++i) ms(false);
  CHECK(inside.idles > before);
  CHECK(outside.idles > 0);
}
