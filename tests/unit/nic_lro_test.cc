// SPDX-License-Identifier: BSD-3-Clause
// The emulated NIC's LRO: what other tests and measurements take for a NIC's behaviour.
#include "bench/nic/lro.h"

#include <functional>
#include <map>
#include <string>

#include "tests/support/checks.h"
#include "tests/support/eal.h"
#include "tests/support/flow.h"

using namespace test;
using softnic::LroOptions;
using namespace std::chrono_literals;

namespace {

struct Out {
  Decoded packet;
  uint64_t flags;
  uint16_t segsz;
  size_t l2_len, l3_len, l4_len;
  bool merged() const { return (flags & RTE_MBUF_F_TX_TCP_SEG) != 0; }
};

// An Lro and what it handed to its driver.
struct Rig {
  explicit Rig(LroOptions options = {}, rte_mempool* pool = pools().buffers().small)
      : lro(options, pool, counters, [this](rte_mbuf* m) {
          out.push_back({decode(to_bytes(*m)), m->ol_flags, static_cast<uint16_t>(m->tso_segsz),
                         m->l2_len, m->l3_len, m->l4_len});
          rte_pktmbuf_free(m);
        }) {}
  void receive(const Frame& f, bool enabled = true) { lro.receive(f.bytes, enabled, now); }
  std::vector<Decoded> packets() const {
    std::vector<Decoded> r;
    for (const Out& o : out) r.push_back(o.packet);
    return r;
  }

  softnic::Counters counters;
  std::vector<Out> out;
  pxio::Nanos now{1s};
  softnic::Lro lro;
};

LroOptions options(std::function<void(LroOptions&)> change) {
  LroOptions o;
  change(o);
  return o;
}

}  // namespace

TEST_CASE("NIC: LRO merges up to its cap, with the first's headers and exact segment size",
          "[nic]") {
  NoLeak guard;
  for (const Shape& shape : all_shapes()) {
    if (shape.tags > 1) continue;
    const Flow flow(shape);
    Rig rig;
    std::vector<Tcp> parts;
    for (uint16_t i = 0; i < 7; ++i) {
      Tcp t = flow.in(uint32_t{i} * flow.full(), flow.full());
      t.ack(t.ack_no + i).window(static_cast<uint16_t>(100 + i)).id(static_cast<uint16_t>(7 * i));
      parts.push_back(t);
      rig.receive(t);
    }
    REQUIRE(rig.out.size() == 1);
    const Out& o = rig.out[0];
    parts.pop_back();
    check_merged(o.packet, parts, false);
    CHECK(o.merged());
    CHECK(o.segsz == flow.full());
    CHECK(o.l2_len == o.packet.l2_len);
    CHECK(o.l3_len == o.packet.l3_len);
    CHECK(o.l4_len == parts[0].header_len());
    CHECK(((o.flags & RTE_MBUF_F_TX_IPV4) != 0) == flow.v4());
    CHECK(((o.flags & RTE_MBUF_F_TX_IPV6) != 0) == !flow.v4());
    CHECK(rig.counters.lro_end_full == 1);
    CHECK(rig.counters.lro_in == 6);
  }
}

TEST_CASE("NIC: the first segment's timestamps stay", "[nic]") {
  NoLeak guard;
  const Flow flow;
  Rig rig;
  for (uint32_t i = 0; i < 3; ++i) {
    Tcp t = flow.in(i * 1000, 1000);
    t.opts.clear();
    rig.receive(t.ts(900 + i, 800 + i));
  }
  rig.lro.flush();
  REQUIRE(rig.out.size() == 1);
  CHECK(rig.out[0].packet.tsval == 900);
}

TEST_CASE("NIC: the cap is the largest merged packet, whatever it is", "[nic]") {
  NoLeak guard;
  const Flow flow;
  for (uint32_t cap = 1500; cap <= 65535; cap += 1499) {
    Rig rig(options([&](LroOptions& o) { o.max_bytes = cap; }));
    for (const Frame& f : flow.run(0, 100)) rig.receive(f);
    rig.lro.flush();
    const size_t most = (cap - 52) / flow.full();
    const std::vector<Decoded> packets = rig.packets();
    CHECK(payload_of(packets).size() == 100u * flow.full());
    for (size_t i = 0; i + 1 < packets.size(); ++i)
      CHECK(packets[i].payload.size() == most * flow.full());
  }
}

TEST_CASE("NIC: contexts are bounded; flows without one pass unmerged", "[nic]") {
  NoLeak guard;
  Rig rig(options([](LroOptions& o) { o.contexts = 4; }));
  std::map<uint16_t, uint32_t> next;
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint16_t n = 1; n <= 64; ++n) {
      const Flow flow({}, n);
      rig.receive(flow.in(round * flow.full(), flow.full()));
    }
  }
  rig.lro.flush();
  CHECK(rig.counters.lro_out == 4);
  CHECK(rig.counters.lro_in == 12);
  CHECK(rig.counters.lro_most_contexts == 4);
  CHECK(rig.counters.lro_no_context == 60 * 3);
  CHECK(rig.out.size() == 4 + 60 * 3);
  for (const Out& o : rig.out) {  // in order, each flow for itself
    auto [at, first] = next.emplace(o.packet.dport, o.packet.seq);
    CHECK(o.packet.seq == at->second);
    at->second = o.packet.seq_end();
  }
}

TEST_CASE("NIC: a session ends by time, counted from its first segment", "[nic]") {
  NoLeak guard;
  const Flow flow;
  Rig rig(options([](LroOptions& o) { o.timeout = 32us; }));
  rig.receive(flow.in(0, 1000));
  rig.now += 31us;
  rig.receive(flow.in(1000, 1000));
  rig.lro.expire(rig.now);
  CHECK(rig.out.empty());
  CHECK(rig.lro.holds());
  rig.now += 1us;
  rig.lro.expire(rig.now);
  CHECK_FALSE(rig.lro.holds());
  REQUIRE(rig.out.size() == 1);
  CHECK(rig.out[0].packet.payload.size() == 2000);
  CHECK(rig.counters.lro_end_timer == 1);

  const Frame lone = flow.in(2000, 1000);
  rig.receive(lone);
  rig.now += 32us;
  rig.lro.expire(rig.now);
  REQUIRE(rig.out.size() == 2);
  CHECK_FALSE(rig.out[1].merged());
  CHECK(rig.out[1].packet.frame == lone.bytes);
  CHECK(rig.counters.lro_single == 1);
}

TEST_CASE("NIC: PSH ends a session, as its last segment or before it", "[nic]") {
  NoLeak guard;
  const Flow flow;
  const std::vector<Tcp> parts = {flow.in(0, 1000), flow.in(1000, 1000),
                                  flow.in(2000, 1000).flags(ACK | PSH)};
  Rig end, alone(options([](LroOptions&o) { o.push = LroOptions::Push::kAlone; }));
  for (Rig* rig : {&end, &alone}) {
    for (const Tcp& t : parts) rig->receive(t);
    CHECK_FALSE(rig->lro.holds());
    CHECK(rig->counters.lro_end_push == 1);
  }
  REQUIRE(end.out.size() == 1);
  check_merged(end.out[0].packet, parts, false);
  REQUIRE(alone.out.size() == 2);
  check_merged(alone.out[0].packet, {parts[0], parts[1]}, false);
  CHECK(alone.out[1].packet.frame == parts[2].build().bytes);
}

TEST_CASE("NIC: a shorter segment is a session's last, a longer one another's first", "[nic]") {
  NoLeak guard;
  const Flow flow;
  Rig rig;
  rig.receive(flow.in(0, 1000));
  rig.receive(flow.in(1000, 999));
  REQUIRE(rig.out.size() == 1);
  CHECK(rig.out[0].packet.payload.size() == 1999);
  CHECK(rig.out[0].segsz == 1000);
  rig.receive(flow.in(1999, 500));
  rig.receive(flow.in(2499, 501));
  REQUIRE(rig.out.size() == 2);
  CHECK_FALSE(rig.out[1].merged());
  rig.lro.flush();
  CHECK(rig.out[2].packet.payload.size() == 501);
}

TEST_CASE("NIC: what LRO can't merge ends its flow's session and passes as it is", "[nic]") {
  NoLeak guard;
  const Flow flow;
  const Tcp next = flow.in(2000, 1000);
  const auto with = [&](auto change) {
    Tcp t = next;
    change(t);
    return t;
  };
  const std::map<std::string, Tcp> odd = {
      {"SYN", with([](Tcp& t) { t.add_flags(SYN); })},
      {"FIN", with([](Tcp& t) { t.add_flags(FIN); })},
      {"RST", with([](Tcp& t) { t.add_flags(RST); })},
      {"URG", with([](Tcp& t) { t.add_flags(URG).urg(1); })},
      {"ECE", with([](Tcp& t) { t.add_flags(ECE); })},
      {"CWR", with([](Tcp& t) { t.add_flags(CWR); })},
      {"AE", with([](Tcp& t) { t.add_flags(AE); })},
      {"no ACK", with([](Tcp& t) { t.flags(0); })},
      {"no payload", with([](Tcp& t) { t.data(0); })},
      {"SACK", with([](Tcp& t) {
         t.option({1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2});
       })},
      {"checksum", with([](Tcp& t) { t.damage(); })},
      {"padding", with([](Tcp& t) { t.pad_to(1200); })},
      {"gap", with([](Tcp& t) { t.seq(t.seq_no + 1); })},
      {"again", with([](Tcp& t) { t.seq(t.seq_no - 1000); })},
      {"TOS", with([](Tcp& t) { t.tos(3); })},
      {"TTL", with([](Tcp& t) { t.ttl(63); })},
      {"DF", with([](Tcp& t) { t.df(false); })},
      {"no timestamps", with([](Tcp& t) { t.opts.clear(); })},
  };
  for (const auto& [what, t] : odd) {
    INFO(what);
    Rig rig;
    rig.receive(flow.in(0, 1000));
    rig.receive(flow.in(1000, 1000));
    rig.receive(t);
    REQUIRE(!rig.out.empty());
    CHECK(rig.out[0].packet.payload.size() == 2000);
    rig.lro.flush();
    REQUIRE(rig.out.size() == 2);
    CHECK_FALSE(rig.out[1].merged());
    CHECK(to_hex(rig.out[1].packet.frame) == to_hex(t.build().bytes));
    CHECK(rig.out[1].packet.frame == t.build().bytes);
  }
  const Flow flow6({6, 0, true});
  Rig rig;
  rig.receive(flow6.in(0, 1000));
  Tcp t = flow6.in(1000, 1000);
  t.lower.flow_label = 5;
  rig.receive(t);
  CHECK(rig.out.size() == 1);
}

TEST_CASE("NIC: nothing is merged where LRO is off, by option or by the driver", "[nic]") {
  NoLeak guard;
  const std::vector<Frame> frames = Flow().run(0, 6);
  Rig off(options([](LroOptions&o) { o.on = false; })), driver;
  for (const Frame& f : frames) {
    off.receive(f);
    driver.receive(f, false);
  }
  check_untouched(off.packets(), frames);
  check_untouched(driver.packets(), frames);
}

TEST_CASE("NIC: other frames pass whole: tunnels, fragments, junk", "[nic]") {
  NoLeak guard;
  Lower lower;
  lower.mf = true;
  std::vector<Frame> frames = {udp(Lower{}, 1, 2, 100), udp(lower, 1, 2, 100),
                               Frame{Bytes(60, 0x81)}, Frame{Bytes(1, 0)},
                               tcp4().data(10).data_offset(3)};
  frames.push_back(Flow({4, 2, true}).in(0, 1000));  // two tags
  Frame cut = tcp4().data(100);
  cut.bytes.resize(70);
  frames.push_back(cut);
  Rig rig;
  for (const Frame& f : frames) rig.receive(f);
  check_untouched(rig.packets(), frames);
}

TEST_CASE("NIC: without buffers frames are dropped under a counter", "[nic]") {
  NoLeak guard;
  rte_mempool* few =
      rte_pktmbuf_pool_create("nic_few", 3, 0, 0, RTE_PKTMBUF_HEADROOM + 2048, SOCKET_ID_ANY);
  REQUIRE(few != nullptr);
  {
    Rig rig({}, few);
    for (const Frame& f : Flow().run(0, 6)) rig.receive(f);  // three buffers hold four segments
    rig.lro.flush();
    CHECK(rig.counters.host_no_buffer > 0);
    CHECK(payload_of(rig.packets()).size() == (6 - rig.counters.host_no_buffer) * Flow().full());
  }
  CHECK(rte_mempool_in_use_count(few) == 0);
  rte_mempool_free(few);
}
