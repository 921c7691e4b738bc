// SPDX-License-Identifier: BSD-3-Clause
// Fan-out: one port for several workers. Both directions of a flow meet one worker, its order is kept, and
// nothing is lost unaccounted.
#include "pxio/dp/fanout_port.h"

#include <poll.h>

#include <map>

#include "pxio/dp/flow_hash.h"
#include "tests/support/checks.h"
#include "tests/support/feed_port.h"

using namespace test;

namespace {

struct Fanned {
  explicit Fanned(uint16_t workers, const pxio::FlowHash& hash = {.secret = 7}) {
    auto p = std::make_unique<FeedPort>();
    port = p.get();
    fan = std::make_unique<pxio::FanoutPort>(std::move(p), workers, hash);
  }
  void pump() {
    while (fan->pump()) {
    }
  }
  std::vector<Bytes> received(uint16_t worker) {
    std::vector<Bytes> r;
    rte_mbuf* pkts[pxio::kBurst];
    while (const uint16_t n = fan->rx_burst(worker, pkts, pxio::kBurst))
      for (uint16_t i = 0; i < n; ++i) r.push_back(to_bytes(*pxio::PktPtr(pkts[i])));
    return r;
  }
  FeedPort* port;
  std::unique_ptr<pxio::FanoutPort> fan;
};

uint32_t hash_of(const Frame& f, const pxio::FlowHash& hash = {.secret = 7}) {
  return hash(*to_mbuf(f, pools().buffers()));
}

// An error about `about`, which its sender gets from a router.
Frame icmp_error(const Tcp& about, int version) {
  const Frame quoted = about;
  Bytes body = version == 4 ? Bytes{3, 4, 0, 0, 0, 0, 5, 120} : Bytes{2, 0, 0, 0, 0, 0, 5, 120};
  body.insert(body.end(), quoted.bytes.begin() + 14, quoted.bytes.begin() + 14 + (version == 4 ? 28 : 60));
  Lower lower;
  lower.version = version;
  lower.src = version == 4 ? addr4(198, 51, 100, 9) : addr6(0x2001, 0xdb8, 9);
  lower.dst = about.lower.src;
  return Frame{ip_frame(lower, version == 4 ? 1 : 58, body)};
}

}  // namespace

TEST_CASE("Order: both directions of a flow, whatever their tags, and its ICMP errors meet one worker", "[fanout]") {
  NoLeak guard;
  for (const int version : {4, 6}) {
    for (uint16_t number = 1; number < 200; ++number) {
      const Flow flow({version, 0, true}, number), tagged({version, 2, true}, number);
      INFO("IPv" << version << " flow " << number);
      const uint32_t h = hash_of(flow.in(0, 100));
      CHECK(hash_of(flow.in(5000, 1448)) == h);
      CHECK(hash_of(flow.out(0, 8000)) == h);
      CHECK(hash_of(flow.syn()) == h);
      CHECK(hash_of(tagged.in(0, 10)) == h);
      CHECK(hash_of(tagged.out(0, 10)) == h);
      CHECK(hash_of(icmp_error(flow.out(0, 100), version)) == h);
      CHECK(hash_of(icmp_error(flow.in(0, 100), version)) == h);
      CHECK(hash_of(flow.in(0, 100), {.secret = 8}) != h);
    }
  }
}

// Case D-07: DF isn't a fragment; P-13: fragments and probes meet.
TEST_CASE("Order: fragments, and datagrams of the ports named, go by addresses alone", "[fanout]") {
  NoLeak guard;
  Lower lower;
  lower.df = false;
  const pxio::FlowHash hash{.secret = 7, .by_address = 7474};
  const Frame probe = udp(lower, 40000, 7474, 100), report = udp(lower, 7474, 40001, 100);
  const Frame other = udp(lower, 40000, 7475, 100);
  lower.mf = true;
  const uint32_t h = hash_of(Frame{ip_frame(lower, 17, Bytes(64, 1))}, hash);
  lower.mf = false;
  lower.frag_offset = 8;
  CHECK(hash_of(Frame{ip_frame(lower, 17, Bytes(64, 2))}, hash) == h);
  std::swap(lower.src, lower.dst);
  CHECK(hash_of(Frame{ip_frame(lower, 17, Bytes(64, 2))}, hash) == h);
  CHECK(hash_of(probe, hash) == h);
  CHECK(hash_of(report, hash) == h);
  CHECK(hash_of(other, hash) != h);
  const Flow flow({4, 0, true});
  CHECK(hash_of(flow.in(0, 100)) != hash_of(Flow({4, 0, true}, 2).in(0, 100)));
}

TEST_CASE("Bounded: short and foreign frames get a worker, too", "[fanout]") {
  NoLeak guard;
  for (size_t len = 1; len < 80; ++len) {
    for (const unsigned type : {0x0800u, 0x86ddu, 0x8100u, 0x8864u, 0x0806u}) {
      Frame f{Bytes(len, 0x45)};
      if (len >= 14) f.bytes[12] = static_cast<uint8_t>(type >> 8), f.bytes[13] = static_cast<uint8_t>(type);
      const uint32_t h = hash_of(f);
      if (type == 0x8864 || type == 0x0806) CHECK(h == 0);
    }
  }
}

TEST_CASE("Fan-out: flows spread evenly, and each keeps its order", "[fanout]") {
  NoLeak guard;
  constexpr uint16_t kWorkers = 4, kFlows = 800;
  Fanned f(kWorkers);
  std::vector<Flow> flows;
  for (uint16_t i = 0; i < kFlows; ++i) flows.emplace_back(Shape{i % 2 != 0 ? 4 : 6, 0, true}, i);
  std::map<uint16_t, size_t> by_worker;
  std::map<Bytes, std::pair<uint16_t, uint32_t>> seen;  // by addresses and ports: worker, and how many
  for (uint32_t round = 0; round < 3; ++round) {
    for (const Flow& flow : flows) {
      f.port->feed.push_back(flow.in(round, 1));
      if (f.port->feed.size() < 200) continue;
      f.pump();
      for (uint16_t w = 0; w < kWorkers; ++w) {
        for (const Bytes& b : f.received(w)) {
          const Decoded d = decode(b, true);
          const size_t l4 = 14u + (d.version == 4 ? 20 : 40);
          const Bytes key(b.begin() + static_cast<long>(l4) - 8, b.begin() + static_cast<long>(l4) + 4);
          auto& [worker, count] = seen.try_emplace(key, w, 0).first->second;
          CHECK(worker == w);
          CHECK(d.seq == 5001 + count);
          if (++count == 1) ++by_worker[w];
        }
      }
    }
  }
  f.pump();
  for (uint16_t w = 0; w < kWorkers; ++w) CHECK(f.received(w).size() < 200);
  CHECK(by_worker.size() == kWorkers);
  for (const auto& [w, n] : by_worker) CHECK((n > kFlows / kWorkers * 7 / 10 && n < kFlows / kWorkers * 13 / 10));
}

TEST_CASE("Bounded: what the rings have no room for is counted, and no buffer is lost", "[fanout]") {
  NoLeak guard;
  Fanned f(2);
  const Flow flow({4, 0, true});
  constexpr size_t kSent = pxio::FanoutPort::kSlots + 500;
  for (uint32_t i = 0; i < kSent; ++i) f.port->feed.push_back(flow.in(i, 1));
  f.pump();
  const size_t got = f.received(0).size() + f.received(1).size();
  CHECK(got == pxio::FanoutPort::kSlots - 1);
  CHECK(f.fan->stats().rx_dropped == kSent - got);
  f.port->feed.push_back(flow.in(0, 1));  // left in a ring when the port closes
  f.pump();
}

TEST_CASE("Order: a port that takes little gets each worker's packets in their order", "[fanout]") {
  NoLeak guard;
  Fanned f(2);
  const Flow flows[] = {Flow({4, 0, true}, 1), Flow({4, 0, true}, 2)};
  f.port->budget = 0;
  uint32_t sent[2] = {0, 0}, seen[2] = {0, 0};
  for (int round = 0; round < 400; ++round) {
    const auto w = static_cast<uint16_t>(round % 2);
    for (int k = 0; k < 3; ++k) {
      rte_mbuf* m = to_mbuf(flows[w].out(sent[w], 1), pools().buffers()).release();
      if (f.fan->tx_burst(w, &m, 1) == 0) {
        pxio::PktPtr(m).reset();
      } else {
        ++sent[w];
      }
    }
    f.port->budget = static_cast<uint64_t>(round % 7);
    f.fan->pump();
  }
  f.port->budget = 1 << 20;
  f.pump();
  CHECK_FALSE(f.fan->pending());
  for (const Decoded& d : f.port->take()) {
    const size_t w = d.sport == flows[0].inside_port ? 0 : 1;
    CHECK(d.seq == 1001 + seen[w]++);
  }
  CHECK(seen[0] == sent[0]);
  CHECK(seen[1] == sent[1]);
}

TEST_CASE("Fan-out: who sleeps is woken by what comes for it, and by nothing else", "[fanout]") {
  NoLeak guard;
  Fanned f(2);
  const auto readable = [](int fd) {
    pollfd p{fd, POLLIN, 0};
    return poll(&p, 1, 0) == 1;
  };
  const Frame frame = Flow({4, 0, true}).in(0, 1);
  const uint16_t mine = pxio::share_of(hash_of(frame), 2);
  f.port->feed.push_back(frame);
  f.pump();
  CHECK_FALSE(readable(f.fan->wait_fd(mine)));  // awake: no system call
  f.fan->arm(0);
  f.fan->arm(1);
  f.port->feed.push_back(frame);
  f.pump();
  CHECK(readable(f.fan->wait_fd(mine)));
  CHECK_FALSE(readable(f.fan->wait_fd(static_cast<uint16_t>(1 - mine))));
  f.fan->disarm(mine);
  CHECK_FALSE(readable(f.fan->wait_fd(mine)));
  f.fan->arm_pump();
  CHECK_FALSE(readable(f.fan->pump_fds()[0]));
  rte_mbuf* m = to_mbuf(frame, pools().buffers()).release();
  CHECK(f.fan->tx_burst(mine, &m, 1) == 1);
  CHECK(readable(f.fan->pump_fds()[0]));
  f.fan->disarm_pump();
  f.received(mine);
}
