// SPDX-License-Identifier: BSD-3-Clause
// What threads share, under load: for the thread sanitizer as much as for its own checks. Buffers are taken and
// given back by one thread alone, since the sanitizer doesn't see into DPDK's pools.
#include <catch2/catch.hpp>
#include <thread>

#include "pxgw/ctl/clock.h"
#include "pxgw/ctl/poll_thread.h"
#include "pxgw/dp/fan_out.h"
#include "pxgw/dp/mailbox.h"
#include "pxgw/dp/worker.h"
#include "tests/support/bed.h"
#include "tests/support/checks.h"
#include "tests/support/feed_port.h"

using namespace test;

TEST_CASE("Fan-out: with threads at both ends every packet comes back once and in order", "[threads]") {
  NoLeak guard;
  constexpr uint16_t kWorkers = 2;
  constexpr uint32_t kPackets = 20000;
  auto feed = std::make_unique<FeedPort>();
  FeedPort* port = feed.get();
  pxio::FanoutPort fan(std::move(feed), kWorkers, {.secret = 7});
  std::vector<Flow> flows;
  for (uint16_t i = 0; i < 16; ++i) flows.emplace_back(Shape{4, 0, true}, i);
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
  for (uint16_t w = 0; w < kWorkers; ++w) {
    workers.emplace_back([&, w] {
      rte_mbuf* pkts[pxio::kBurst];
      while (!stop.load(std::memory_order_acquire)) {
        const uint16_t n = fan.rx_burst(w, pkts, pxio::kBurst);
        uint16_t sent = 0;
        while (sent < n) sent = static_cast<uint16_t>(sent + fan.tx_burst(w, pkts + sent, static_cast<uint16_t>(n - sent)));
        if (n == 0) std::this_thread::yield();
      }
    });
  }
  std::vector<uint32_t> next(flows.size());
  uint32_t back = 0;
  for (uint32_t i = 0; i < kPackets || back < kPackets;) {
    // No more under way than a ring holds.
    for (; i < kPackets && i < back + 900; ++i) {
      const Flow& flow = flows[i % flows.size()];
      port->feed.push_back(flow.in(i / static_cast<uint32_t>(flows.size()), 1));
    }
    if (!fan.pump()) std::this_thread::yield();
    for (const Decoded& d : port->take()) {
      ++back;
      for (size_t k = 0; k < flows.size(); ++k)
        if (flows[k].inside_port == d.dport && flows[k].inside == d.dst) CHECK(d.seq == 5001 + next[k]++);
    }
  }
  stop.store(true, std::memory_order_release);
  for (auto& t : workers) t.join();
  CHECK(back == kPackets);
  CHECK(fan.stats().rx_dropped == 0);
}

TEST_CASE("Threads: policies, counters and packets cross between control, fan-out and workers", "[threads]") {
  NoLeak guard;
  constexpr uint16_t kWorkers = 2;
  auto outside = std::make_unique<FeedPort>(), inside = std::make_unique<FeedPort>();
  FeedPort *from_outside = outside.get(), *from_inside = inside.get();
  pxio::FanoutPort outside_fan(std::move(outside), kWorkers, {.secret = 7}), inside_fan(std::move(inside), kWorkers, {.secret = 7});
  std::vector<std::unique_ptr<pxgw::PolicySet>> policies;
  const auto new_policy = [&]() -> pxgw::PolicySet& {
    auto set = std::make_unique<pxgw::PolicySet>();
    set->generation = policies.size();
    set->pairs.resize(1);
    set->pairs[0].inside_mtu = policies.size() % 2 == 0 ? 9000 : 4000;
    policies.push_back(std::move(set));
    return *policies.back();
  };
  std::vector<std::unique_ptr<pxgw::Worker>> workers;
  new_policy();
  for (uint16_t q = 0; q < kWorkers; ++q)
    workers.push_back(std::make_unique<pxgw::Worker>(q, std::vector<pxgw::PairPorts>{{&outside_fan, &inside_fan}},
                                                     *policies[0], small_capacity(), pools().buffers()));
  std::vector<Flow> flows;
  for (uint16_t i = 0; i < 8; ++i) flows.emplace_back(Shape{i % 2 != 0 ? 4 : 6, 0, true}, i);
  uint64_t given = 0, payload = 0, came = 0;
  const auto pump = [&] {
    outside_fan.pump();
    inside_fan.pump();
    for (const Decoded& d : from_inside->take()) came += d.payload.size();
    from_outside->forget();
  };
  const auto counted = [&] {
    pxgw::Counters c;
    for (const auto& w : workers) pxgw::add(c, w->counters());
    return c;
  };
  const auto settle = [&](auto&& meanwhile) {
    while (counted().in_pkts + counted().out_pkts < given) pump(), meanwhile();
  };
  for (const Flow& f : flows) {
    for (const Tcp& t : {f.syn(), f.syn_ack(), f.third()}) {
      (t.lower.src == f.inside ? from_inside : from_outside)->feed.push_back(t);
      ++given;
      settle([&] {
        for (const auto& w : workers) w->poll_once(pxgw::clock_now());
      });
    }
  }
  const auto feed_segment = [&](const Flow& f, uint32_t k) {
    from_outside->feed.push_back(f.in(k * f.full(), f.full()));
    payload += f.full();
    ++given;
  };
  // Runs that are in the rings before the threads start share a burst, whatever the threads' pace is.
  constexpr uint32_t kRun = 6;
  for (const Flow& f : flows)
    for (uint32_t k = 0; k < kRun; ++k) feed_segment(f, k);
  while (outside_fan.pump()) {
  }

  pxgw::PollThreadOptions options{.name = "test", .sleeps = true};
  sched_getaffinity(0, sizeof options.cpus, &options.cpus);
  std::vector<std::unique_ptr<pxgw::PollThread>> threads;
  for (const auto& w : workers) threads.push_back(std::make_unique<pxgw::PollThread>(*w, options));

  for (uint32_t k = kRun; k < 600; ++k) {
    for (const Flow& f : flows) feed_segment(f, k);
    pump();
    if (k % 20 == 0)
      for (const auto& w : workers) w->use(new_policy());
    if (k % 50 == 0) settle(std::this_thread::yield);
  }
  settle(std::this_thread::yield);
  for (const auto& w : workers) {
    w->use(*policies.back());
    while (w->generation() != policies.back()->generation) std::this_thread::yield();
  }
  for (const auto& t : threads) t->stop();
  for (int i = 0; i < 100; ++i) pump();
  const pxgw::Counters c = counted();
  CHECK(c.engine.flow_created == flows.size());
  CHECK(c.in_pkts + c.out_pkts == given);
  CHECK(came == payload);
  CHECK(c.engine.merge_out_merged > 0);
  CHECK(outside_fan.stats().rx_dropped == 0);
}

TEST_CASE("Mailbox: commands and reports cross without loss or disorder", "[threads]") {
  using namespace pxgw;
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
