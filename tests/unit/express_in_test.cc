// SPDX-License-Identifier: BSD-3-Clause
// Segments of a flow in a row are merged together; where their headers lie in two buffers, each
// goes the long way. What leaves, when, and all counters are the same.
#include <cstring>
#include <random>

#include "tests/support/checks.h"

using namespace test;

namespace {

struct Stream {
  Flow flow;
  uint32_t sent = 0, tsval = 0, len = 0;
};

// A run of segments, mostly full ones and none of which stands out; with each packet it may be that
// one does.
void add_run(Stream& s, std::mt19937& rnd, std::vector<Frame>& to) {
  const auto any = [&rnd](uint32_t below) { return static_cast<uint32_t>(rnd() % below); };
  if (any(6) == 0) s.len = any(3) == 0 ? 1 + any(s.flow.full()) : s.flow.full() - any(8);
  for (uint32_t n =
           std::min<uint32_t>(1 + any(any(2) == 0 ? 40 : 6), 32 - static_cast<uint32_t>(to.size()));
       n != 0; --n) {
    const uint32_t odd = any(150);
    if (odd == 0) s.sent += any(3000);                    // one is lost
    if (odd == 1) s.sent -= std::min(s.sent, any(9000));  // one comes again
    const uint32_t len = odd == 2 ? 1 + any(s.len) : s.len;
    Tcp t = s.flow.in(s.sent, len)
                .ack(1001 + any(any(20) == 0 ? 2000 : 1))
                .id(static_cast<uint16_t>(rnd()))
                .window(static_cast<uint16_t>(rnd()));
    t.opts.clear();
    t.ts(s.tsval, 5);
    if (any(30) == 0) ++s.tsval;
    constexpr std::array<uint16_t, 6> kFlags{PSH, ECE, CWR, AE, FIN, URG};
    if (odd == 3) t.add_flags(kFlags[any(kFlags.size())]);
    if (odd == 4) t.tos(static_cast<uint8_t>(any(4)));
    if (odd == 5) t.ttl(9);
    if (odd == 6) t.damage();
    s.sent += len;
    Frame f = t.rx(any(2) == 0 ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN);
    if (odd == 7) f.bytes[any(12)] ^= static_cast<uint8_t>(1u << (1 + any(7)));  // another router
    to.push_back(std::move(f));
  }
}

}  // namespace

TEST_CASE("Merge: runs of a flow come out as their segments one by one", "[runs]") {
  pxgw::Policy policy;
  SECTION("as shipped") {}
  SECTION("not held beyond a burst") { policy.hold_limit = pxio::Nanos(0); }
  SECTION("young flows") { policy.merge_early_segs = 3, policy.merge_early_packets = 4; }
  std::mt19937 rnd(5);
  Bed runs(policy), alone(policy);
  std::vector<Stream> streams;
  for (uint16_t k = 1; k <= 5; ++k) streams.push_back({Flow({.timestamps = true}, k)});
  for (int round = 0; round < 4000; ++round) {
    if (round % 400 == 0) {
      for (Stream& s : streams) {
        s.sent = 0, s.tsval = 1000, s.len = s.flow.full();
        for (Bed* bed : {&runs, &alone}) bed->open(s.flow);
      }
    }
    std::vector<Frame> burst;
    for (uint32_t n = 1 + static_cast<uint32_t>(rnd() % 32); burst.size() < n;)
      add_run(streams[rnd() % streams.size()], rnd, burst);
    std::vector<Frame> cut = burst;
    for (Frame& f : cut) f.cuts = {30};
    runs.in(burst);
    alone.in(cut);
    for (Bed* bed : {&runs, &alone}) {
      bed->flush_tx();
      bed->advance(std::chrono::microseconds(round % 9 * 10));
    }
    const std::vector<Decoded> a = runs.inside(), b = alone.inside();
    INFO("round " << round << text_of(a) << "\n/" << text_of(b));
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      INFO(a[i].text() << " / " << b[i].text());
      REQUIRE(same(a[i].frame, b[i].frame));
      REQUIRE(a[i].time == b[i].time);
    }
    const pxgw::Counters c = runs.count(), d = alone.count();
    for (size_t i = 0; i < sizeof c / 8; ++i) {
      INFO("counter " << i);
      REQUIRE(reinterpret_cast<const uint64_t*>(&c)[i] == reinterpret_cast<const uint64_t*>(&d)[i]);
    }
  }
  for (Bed* bed : {&runs, &alone}) bed->advance(std::chrono::milliseconds(1));
  CHECK(runs.count().engine.merge_out_segs > 40000);
}

TEST_CASE("Merge: a run fills chains of no more buffers than the port takes", "[runs]") {
  const auto most = static_cast<uint16_t>(GENERATE(1, 2, 3, 5));
  pxgw::Policy policy;
  policy.max_merge_segs = most;
  Bed bed(policy);
  const Flow flow({.timestamps = true});
  bed.open(flow);
  for (uint32_t i = 0; i < 4; ++i) bed.in(flow.run(i * 30 * flow.full(), 30));
  bed.advance(std::chrono::milliseconds(1));
  const auto out = bed.inside();
  CHECK(same(payload_of(out), stream_of(flow.in(), 120u * flow.full())));
  CHECK(out.size() == 120u / most);
  for (const Decoded& d : out) CHECK(d.payload.size() == size_t{most} * flow.full());
}

TEST_CASE("Paths: what is acknowledged within a run is known to have arrived", "[runs]") {
  const bool acknowledged = GENERATE(true, false);
  Bed bed;
  const Flow flow({.timestamps = true});
  bed.open(flow);
  const uint32_t full = flow.full();
  bed.out({flow.out(0, full)});
  for (uint32_t burst = 0; burst < 4; ++burst) {
    std::vector<Frame> run = flow.run(burst * 6 * full, 6);
    if (acknowledged && burst == 3) {
      for (uint32_t i = 3; i < 6; ++i) run[i] = flow.in((18 + i) * full, full).ack(1001 + full);
    }
    bed.in(run);
  }
  // The first that isn't acknowledged, again and again: its path is too small for it.
  for (int i = 0; i < 3; ++i) bed.out({flow.out(full, full)});
  bed.advance(std::chrono::milliseconds(1));
  CHECK(bed.inside().size() == 4);
  CHECK((bed.count().pmtu_lowered != 0) == acknowledged);
}
