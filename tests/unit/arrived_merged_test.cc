// SPDX-License-Identifier: BSD-3-Clause
// Packets that a NIC or kernel has already merged: cut again where they are too large for their
// receiver, merged on where they aren't.
#include "tests/support/checks.h"

using namespace test;

namespace {

Tcp lro(const Flow& flow, uint32_t at, size_t segs, uint16_t segsz) {
  return flow.in(at, segs * flow.full()).rx(RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD, segsz);
}

}  // namespace

TEST_CASE("Sizes: a packet that came merged never leaves larger than its receiver takes", "[lro]") {
  Flow flow({GENERATE(4, 6), GENERATE(0, 1), true});
  const int who = GENERATE(0, 1, 2);  // jumbos, small MSS, handshake unseen
  const size_t segs = GENERATE(size_t{2}, size_t{4}, size_t{6}, size_t{7}, size_t{20});
  const bool known_size = GENERATE(true, false);
  if (who == 1) flow.inside_mss = flow.v4() ? 1460 : 1440;
  Bed bed;
  if (who != 2) bed.open(flow);
  const size_t max = who == 0 ? 9000 : 1500;
  if (segs * flow.full() > 9400 && !known_size) return;
  Tcp t = lro(flow, 0, segs, known_size ? flow.full() : uint16_t{0});
  t.cut({1514, 3000, 4500, 6000, 7500, 9000, 16000, 24000});
  bed.in({t.flags(ACK | PSH)});
  bed.advance(std::chrono::milliseconds(1));
  const auto out = bed.inside();
  INFO(text_of(out));
  CHECK(same(payload_of(out), stream_of(flow.in(), segs * flow.full())));
  for (const Decoded& d : out) {
    CHECK(d.ip_len <= max);
    CHECK(d.checksum_ok);
    CHECK(((d.flags & PSH) != 0) == (&d == &out.back()));
  }
}

TEST_CASE("Sizes: what came merged from inside leaves no larger than its sender's segments", "[lro]") {
  Flow flow({GENERATE(4, 6), GENERATE(0, 1), true});
  const bool known = GENERATE(true, false);
  const uint16_t own = GENERATE(uint16_t{36}, uint16_t{512}, uint16_t{1200}, uint16_t{1448}, uint16_t{4000}, uint16_t{8900});
  Bed bed;
  if (known) bed.open(flow);
  const size_t len = std::min(60'000, own * 40 + 7);
  Tcp t = flow.out(0, len).rx(RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD, own);
  t.cut({100, 1514, 3000, 9000, 18'000, 27'000, 36'000, 45'000, 54'000});
  bed.out({t.flags(ACK | PSH | CWR)});
  const auto out = bed.outside();
  INFO(text_of(out));
  CHECK(same(payload_of(out), stream_of(flow.out(), len)));
  for (const Decoded& d : out) {
    CHECK(d.ip_len <= 1500);
    CHECK(d.payload.size() <= own);
    CHECK(d.checksum_ok);
    CHECK(((d.flags & PSH) != 0) == (&d == &out.back()));
    CHECK(((d.flags & CWR) != 0) == (&d == &out.front()));
  }
  if (own != 1448) CHECK(bed.count().merge_recut == (own < 1448));
}

TEST_CASE("Sizes: small segments that come again are no evidence against a path, merged or not", "[lro]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  const bool large = GENERATE(false, true);
  Bed bed;
  bed.open(flow);
  for (int i = 0; i < 5; ++i)
    bed.out({flow.out(0, 2400).rx(RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD, large ? 1400 : 900)});
  CHECK((bed.count().pmtu_lowered != 0) == large);
}

TEST_CASE("Stream: what came partly merged is merged on", "[lro]") {
  Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  bed.in({lro(flow, 0, 2, flow.full()), lro(flow, 2u * flow.full(), 3, flow.full()),
          lro(flow, 5u * flow.full(), 1, flow.full())});
  bed.advance(std::chrono::milliseconds(1));
  const auto out = bed.inside();
  INFO(text_of(out));
  CHECK(same(payload_of(out), stream_of(flow.in(), 6u * flow.full())));
  CHECK(out.size() == 1);
}
