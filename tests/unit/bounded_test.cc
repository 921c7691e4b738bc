// SPDX-License-Identifier: BSD-3-Clause
// Full tables, short pools and ports that take nothing: traffic passes or is counted, and no buffer is
// lost. Each bed checks both when it goes.
#include "tests/support/checks.h"

using namespace test;

TEST_CASE("Bounded: with the flow table full, further flows pass untouched", "[bounded]") {
  pxgw::Capacity capacity = small_capacity();
  capacity.flows = 1;
  Bed bed({}, capacity);
  std::vector<Flow> flows;
  for (uint16_t i = 0; i < 20; ++i) flows.emplace_back(Shape{i % 2 != 0 ? 4 : 6, 0, true}, i);
  for (const Flow& f : flows) bed.open(f);
  CHECK(bed.count().flows <= 1);
  CHECK(bed.count().engine.flow_table_full >= 19);
  size_t merged = 0;
  for (const Flow& f : flows) {
    const auto out = bed.merge(f.run(0, 4));
    CHECK(same(payload_of(out), stream_of(f.in(), 4u * f.full())));
    merged += out.size() == 1;
    bed.out({f.out(0, 5000)});  // still split, at whatever size is safe
    const auto pieces = bed.outside();
    CHECK(same(payload_of(pieces), stream_of(f.out(), 5000)));
    for (const Decoded& d : pieces) CHECK(d.ip_len <= 1500);
  }
  CHECK(merged <= 1);
}

TEST_CASE("Bounded: a flood of SYNs leaves known flows alone and is forgotten", "[bounded]") {
  const Flow real({4, 0, true}, 1);
  Bed bed;
  const uint32_t at = bed.open_bulk(real);
  std::vector<Frame> burst;
  for (uint16_t i = 0; i < 5000; ++i) {
    Flow f({i % 2 != 0 ? 4 : 6, 0, true}, static_cast<uint16_t>(i + 100));
    const bool in = i % 3 == 0;
    f.opener = in ? Opener::kOutside : Opener::kInside;
    bed.process(in ? pxio::Direction::kInbound : pxio::Direction::kOutbound, {f.syn()});
  }
  CHECK(bed.inside().size() + bed.outside().size() == 5000);
  CHECK(bed.count().syn_table_full > 0);
  CHECK(bed.count().handshakes <= 64);
  CHECK(bed.count().flows == 1);
  auto out = bed.merge(real.run(at, 6));
  REQUIRE(out.size() == 1);
  CHECK(out[0].payload.size() == 6u * real.full());
  // Seconds later there is room again.
  for (int i = 0; i < 100; ++i) {
    bed.advance(std::chrono::milliseconds(200));
    bed.housekeeping(50);
  }
  const Flow late({6, 0, true}, 7);
  bed.open(late);
  bed.in(late.run(0, 6));
  CHECK(bed.inside().size() == 1);
}

TEST_CASE("Bounded: a SYN that finds no slot isn't raised", "[bounded]") {
  pxgw::Capacity capacity = small_capacity();
  capacity.handshakes = 1;
  Bed bed({}, capacity);
  size_t untouched = 0, raised = 0;
  for (uint16_t i = 0; i < 200; ++i) {
    Flow f({4, 0, true}, i);
    f.opener = Opener::kOutside;
    const auto out = bed.merge({f.syn()});
    REQUIRE(out.size() == 1);
    (out[0].mss() == 1460 ? untouched : raised)++;
  }
  CHECK(bed.count().syn_table_full == untouched);
  CHECK(bed.count().syn_raised == raised);
  CHECK(untouched > 100);
}

TEST_CASE("Bounded: with every hold slot taken, segments pass in order", "[bounded]") {
  pxgw::Capacity capacity = small_capacity();
  capacity.held = GENERATE(1u, 2u, 3u);
  Bed bed({}, capacity);
  std::vector<Flow> flows;
  for (uint16_t i = 0; i < 10; ++i) flows.emplace_back(Shape{i % 2 != 0 ? 4 : 6, 0, true}, i);
  for (const Flow& f : flows) bed.open(f);
  std::vector<Frame> in;
  for (uint32_t k = 0; k < 4; ++k)
    for (const Flow& f : flows) in.push_back(f.in(k * f.full(), f.full()));
  bed.in(in);
  bed.advance(std::chrono::milliseconds(1));
  const auto out = bed.inside();
  for (const Flow& f : flows) {
    std::vector<Decoded> mine;
    for (const Decoded& d : out)
      if (d.dport == f.inside_port) mine.push_back(d);
    CHECK(same(payload_of(mine), stream_of(f.in(), 4u * f.full())));
  }
  CHECK(bed.count().engine.merge_no_hold > 0);
}

TEST_CASE("Bounded: short pools lose only what is counted", "[bounded]") {
  const uint32_t small = GENERATE(7u, 15u, 31u);
  const int version = GENERATE(4, 6);
  pxio::BufferPools few(small, 7);
  const Flow flow({version, 0, true});
  Bed bed({}, small_capacity(), &few);
  bed.open(flow);
  REQUIRE(bed.not_received() == 0);
  uint32_t at = 0;
  for (int i = 0; i < 20; ++i) {
    bed.in(flow.run(at, 6));
    at += 6u * flow.full();
    bed.advance(std::chrono::microseconds(20));
  }
  bed.advance(std::chrono::milliseconds(1));
  bed.forget();
  size_t whole = 0;
  uint32_t out_at = 0;
  for (int i = 0; i < 20; ++i) {
    // A jumbo in one large buffer: its pieces need up to seven small ones.
    bed.out({flow.out(out_at, 1000 + 400u * static_cast<unsigned>(i))});
    const auto out = bed.outside();
    whole += !out.empty();
    // All of it or nothing.
    if (!out.empty()) CHECK(same(payload_of(out), stream_of(flow.out(out_at), 1000 + 400u * static_cast<unsigned>(i))));
    out_at += 1000 + 400u * static_cast<unsigned>(i);
  }
  CHECK(whole + bed.count().drop_no_buffer == 20);
}

TEST_CASE("Bounded: buffers that run out at every k-th allocation are all accounted for", "[bounded]") {
  // Buffers are taken away until k are left, for every k.
  const Flow flow({GENERATE(4, 6), 0, true});
  pxio::BufferPools few(31, 7);
  for (unsigned k = 0; k <= 12; ++k) {
    std::vector<pxio::PktPtr> taken;
    Bed bed({}, small_capacity(), &few);
    bed.open(flow);
    const Frame jumbo = flow.out(0, flow.jumbo());
    const Frame datagram = udp([&] {
      Lower lo = flow.out().lower;
      lo.df = false;
      return lo;
    }(), 1, 2, 8000);
    while (rte_mempool_avail_count(few.buffers().small) > k) {
      rte_mbuf* m = rte_pktmbuf_alloc(few.buffers().small);
      if (m == nullptr) break;
      taken.emplace_back(m);
    }
    bed.out({jumbo, datagram});
    bed.out({jumbo});
    taken.clear();
  }
}

TEST_CASE("Bounded: a port that takes nothing, or little, costs packets but no buffers", "[bounded]") {
  const uint64_t budget = GENERATE(uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{10});
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  const uint32_t at = bed.open_bulk(flow);
  bed.inside_port().budget = bed.outside_port().budget = budget;
  for (uint32_t i = 0; i < 10; ++i) {
    bed.in(flow.run(at + i * 6u * flow.full(), 6));
    bed.out({flow.out(i * 8000, 8000)});
  }
  bed.advance(std::chrono::milliseconds(1));
  CHECK(bed.inside().size() == std::min<uint64_t>(budget, 10));
  CHECK(bed.outside().size() == std::min<uint64_t>(budget, 60));
}

TEST_CASE("Bounded: flows are forgotten after their timeout, and their place is used again", "[bounded]") {
  pxgw::Capacity capacity = small_capacity();
  capacity.flows = 8;
  pxgw::Policy policy;
  policy.flow_timeout = std::chrono::seconds(60);
  Bed bed(policy, capacity);
  for (uint16_t round = 0; round < 5; ++round) {
    for (uint16_t i = 0; i < 8; ++i) bed.open(Flow(Shape{i % 2 != 0 ? 4 : 6, 0, true}, static_cast<uint16_t>(round * 8 + i)));
    CHECK(bed.count().flows > 0);
    for (int i = 0; i < 200; ++i) {
      bed.advance(std::chrono::seconds(1));
      bed.housekeeping(20);
    }
    CHECK(bed.count().flows == 0);
  }
  CHECK(bed.count().engine.flow_aged == bed.count().engine.flow_created);
}

TEST_CASE("Bounded: what is held when the gateway goes is freed", "[bounded]") {
  NoLeak guard;
  const Flow flow;
  CollectPort a, b;
  {
    pxio::TxBuffer in(a, 0), out(b, 0);
    pxgw::Policy policy;
    pxgw::Gateway gateway(policy, small_capacity(), pools().buffers(), in, out);
    std::chrono::nanoseconds now = std::chrono::seconds(1);
    const auto give = [&](pxio::Direction d, const Frame& f) {
      rte_mbuf* m = to_mbuf(f, pools().buffers()).release();
      gateway.process(d, &m, 1, now);
    };
    give(pxio::Direction::kOutbound, flow.syn());
    give(pxio::Direction::kInbound, flow.syn_ack());
    give(pxio::Direction::kOutbound, flow.third());
    for (const Frame& f : flow.run(0, 22)) give(pxio::Direction::kInbound, f);
    REQUIRE(gateway.next_deadline());
  }
}

TEST_CASE("Bounded: chains are as long as the port takes at most", "[bounded]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  pxgw::Policy policy;
  policy.max_merge_segs = GENERATE(uint16_t{1}, uint16_t{2}, uint16_t{4}, uint16_t{8});
  Bed bed(policy);
  bed.open(flow);
  std::vector<Frame> in;
  for (uint32_t i = 0; i < 30; ++i) in.push_back(flow.in(i * 100, 100));
  bed.in(in);
  bed.advance(std::chrono::milliseconds(1));
  CHECK(same(payload_of(bed.inside()), stream_of(flow.in(), 3000)));
  CHECK(bed.inside_port().most_buffers <= policy.max_merge_segs);
}
