// SPDX-License-Identifier: BSD-3-Clause
// Splitting: tiles, headers and flags of the pieces, and how large they are.
#include "tests/support/checks.h"

using namespace test;

TEST_CASE("Headers: the pieces of a jumbo tile it and differ only where they must", "[split]") {
  const Shape shape = GENERATE(from_range(all_shapes()));
  CAPTURE(shape.version, shape.tags, shape.timestamps);
  Flow flow(shape);
  flow.inside_isn = 0xffffffff - 4000;  // sequence numbers wrap inside
  Bed bed;
  bed.open(flow);
  const size_t f = flow.full();
  const size_t len = GENERATE_COPY(size_t{f + 1}, 2 * f - 1, 2 * f, 2 * f + 1, 6 * f, 6 * f + 300,
                                   size_t{flow.jumbo()});
  Tcp t = flow.out(0, len).flags(ACK | PSH | FIN).window(77).id(0xfffe).tos(0x28).ttl(9);
  t.lower.flow_label = flow.v4() ? 0 : 0xabcde;
  t.lower.reserved = flow.v4();
  bed.out({t});
  check_split(bed.outside(), t, f);
  CHECK(bed.count().engine.split_in_pkts == 1);
}

TEST_CASE("Headers: a sweep of payload lengths splits and adds up", "[split]") {
  const int version = GENERATE(4, 6);
  const Flow flow({version, 1, true});
  Bed bed;
  bed.open(flow);
  uint32_t at = 0;
  for (size_t len = 2; len <= flow.jumbo(); len += 61) {
    const Tcp t = flow.out(at, len);
    at += static_cast<uint32_t>(len);
    bed.out({t});
    const auto out = bed.outside();
    if (len <= flow.full()) {
      check_untouched(out, {t});
    } else {
      check_split(out, t, flow.full());
    }
  }
}

TEST_CASE("Headers: chained jumbos split the same, wherever their buffers begin", "[split]") {
  const int version = GENERATE(4, 6);
  const uint32_t cut = GENERATE(1u, 13u, 33u, 53u, 66u, 67u, 86u, 87u, 500u);
  const Flow flow({version, 0, true});
  Bed bed;
  bed.open(flow);
  const Tcp t = flow.out(0, flow.jumbo()).cut({cut, cut + 1, cut + 2, 1514, 1515, 3001, 7000});
  bed.out({t});
  check_split(bed.outside(), t, flow.full());
}

TEST_CASE("Headers: further options are on every piece and make it smaller", "[split]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  Tcp t = flow.out(0, 8000);
  const bool mptcp = GENERATE(false, true);
  if (mptcp) {
    t.option({30, 8, 0x20, 1, 0, 0, 0, 9});
  } else {
    t.option({1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2});
  }
  bed.out({t});
  check_split(bed.outside(), t, flow.full() - (mptcp ? 8u : 12u));
}

TEST_CASE("Headers: CWR on a split is on the first piece alone for classic ECN", "[split]") {
  Flow flow({GENERATE(4, 6), 0, true});
  flow.syn_flags = CWR | ECE;
  flow.syn_ack_flags = ECE;
  flow.opener = GENERATE(Opener::kInside, Opener::kOutside);
  Bed bed;
  bed.open(flow);
  const Tcp t = flow.out(0, 8000).add_flags(CWR | PSH);
  bed.out({t});
  check_split(bed.outside(), t, flow.full(), false);
  // ECE isn't limited to the first: it is repeated until CWR answers it (RFC 3168).
  const Tcp e = flow.out(8000, 8000).add_flags(ECE);
  bed.out({e});
  check_split(bed.outside(), e, flow.full(), false);
}

TEST_CASE("Headers: AE, CWR and ECE are on every piece for AccECN", "[split]") {
  Flow flow({GENERATE(4, 6), 0, true});
  flow.syn_flags = AE | CWR | ECE;
  flow.syn_ack_flags = GENERATE(uint16_t{CWR}, uint16_t{CWR | ECE}, uint16_t{AE}, uint16_t{AE | CWR});
  Bed bed;
  bed.open(flow);
  const Tcp t = flow.out(0, 8000).add_flags(AE | CWR | ECE);
  bed.out({t});
  check_split(bed.outside(), t, flow.full(), true);
}

TEST_CASE("Headers: AE, CWR and ECE are on every piece where the handshake wasn't seen", "[split]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  const Tcp t = flow.out(0, 8000).add_flags(CWR);
  bed.out({t});
  check_split(bed.outside(), t, 1280u - flow.ip_len() - 20 - 12, true);
}

TEST_CASE("Sizes: jumbos of flows whose handshake wasn't seen leave at the safe size", "[split]") {
  const Flow flow({GENERATE(4, 6), GENERATE(0, 1), GENERATE(true, false)});
  pxgw::Policy policy;
  policy.safe_mtu = GENERATE(uint16_t{1280}, uint16_t{1400});
  Bed bed(policy);
  const Tcp t = flow.out(0, flow.jumbo()).flags(ACK | PSH);
  bed.out({t});
  check_split(bed.outside(), t, policy.safe_mtu - flow.ip_len() - 20u - flow.ts_len(), true);
  // What fits the outside MTU isn't touched.
  const std::vector<Frame> fits = {flow.out(flow.jumbo(), flow.full())};
  bed.out(fits);
  check_untouched(bed.outside(), fits);
}

TEST_CASE("Sizes: the receiver's MSS bounds the pieces", "[split]") {
  Flow flow({GENERATE(4, 6), 0, GENERATE(true, false)});
  flow.opener = GENERATE(Opener::kInside, Opener::kOutside);
  const int which = GENERATE(0, 1, 2, 3);
  const uint16_t least = flow.v4() ? 536 : 1220;
  const uint16_t values[] = {1300, least, 1220, 9000};
  flow.outside_mss = values[which];
  Bed bed;
  bed.open(flow);
  const Tcp t = flow.out(0, flow.jumbo());
  bed.out({t});
  const size_t mss = std::min<size_t>(flow.outside_mss, flow.v4() ? 1460 : 1440);
  check_split(bed.outside(), t, mss - flow.ts_len());
}

TEST_CASE("Sizes: a segment that fits the outside MTU but not the receiver's MSS is split too", "[split]") {
  Flow flow;
  flow.outside_mss = 536;
  Bed bed;
  bed.open(flow);
  const Tcp t = flow.out(0, 1400);
  bed.out({t});
  check_split(bed.outside(), t, 524);
}

TEST_CASE("Sizes: a SYN without an MSS option means 536, or 1220 on IPv6", "[split]") {
  Flow flow({GENERATE(4, 6), 0, false});
  Bed bed;
  bed.out({flow.syn()});
  bed.in({flow.syn_ack().options({1, 3, 3, 7})});
  bed.out({flow.third()});
  bed.forget();
  const Tcp t = flow.out(0, 8000);
  bed.out({t});
  check_split(bed.outside(), t, flow.v4() ? 536 : 1220);
}

TEST_CASE("Sizes: URG, RST and SYN aren't split", "[split]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  const uint16_t f = GENERATE(uint16_t{URG | ACK}, uint16_t{RST | ACK});
  // They fit: untouched, in order with what is split around them.
  const Tcp a = flow.out(0, 3000), c = flow.out(3500, 3000);
  const Tcp b = flow.out(3000, 500).flags(f).urg(f & URG ? 3 : 0);
  bed.out({a, b, c});
  const auto out = bed.outside();
  INFO(text_of(out));
  REQUIRE(out.size() >= 4);
  size_t at = 0;
  while (at < out.size() && out[at].flags == ACK) ++at;
  REQUIRE(at < out.size());
  check_untouched({out[at]}, {b});
  if (f & URG) {
    check_split({out.begin(), out.begin() + static_cast<long>(at)}, a, flow.full());
    check_split({out.begin() + static_cast<long>(at) + 1, out.end()}, c, flow.full());
  }
}

TEST_CASE("Sizes: a jumbo that can't be split is never sent too large", "[split]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  const int kind = GENERATE(0, 1, 2);
  Tcp t = flow.out(0, 3000);
  if (kind == 0) t.flags(ACK | URG).urg(1);
  if (kind == 1) t.flags(ACK | RST);
  if (kind == 2) t.option({29, 4, 1, 1});
  bed.out({t});
  for (const Decoded& d : bed.outside()) CHECK(d.ip_len <= 1500);
}

TEST_CASE("Bounded: a packet never becomes more segments than allowed", "[split]") {
  Flow flow({4, 0, true});
  flow.outside_mss = GENERATE(uint16_t{8}, uint16_t{13}, uint16_t{100});
  pxgw::Policy policy;
  policy.max_split_segs = 16;
  Bed bed(policy);
  bed.open(flow);
  const std::vector<Frame> p = {flow.out(0, 8000), flow.out(8000, 1400)};
  bed.out(p);
  // The jumbo is dropped and counted; what fits the outside MTU passes.
  const auto out = bed.outside();
  INFO(text_of(out));
  CHECK(bed.count().drop_split_segments == 1);
  if (flow.outside_mss < 80) {
    check_untouched(out, {p[1]});
  } else {
    CHECK(same(payload_of(out), stream_of(flow.out(8000), 1400)));
  }
}

TEST_CASE("Bounded: MSS of nothing at all does no harm", "[split]") {
  Flow flow({GENERATE(4, 6), 0, GENERATE(true, false)});
  flow.outside_mss = GENERATE(uint16_t{0}, uint16_t{1}, uint16_t{8}, uint16_t{12}, uint16_t{48},
                              uint16_t{535}, uint16_t{65535});
  Bed bed;
  bed.open(flow);
  bed.out({flow.out(0, 8000), flow.out(8000, 1400), flow.out(9400, 1)});
  for (const Decoded& d : bed.outside()) CHECK((d.ip_len <= 1500 && d.checksum_ok));
}

TEST_CASE("Order: pure ACKs outbound keep their place among the pieces", "[split]") {
  const Flow flow;
  Bed bed;
  bed.open(flow);
  const std::vector<Tcp> p = {flow.out(0, 3000), flow.out(3000), flow.out(3000, 3000), flow.out(6000)};
  bed.out({p.begin(), p.end()});
  const auto out = bed.outside();
  INFO(text_of(out));
  REQUIRE(out.size() == 8);
  check_split({out.begin(), out.begin() + 3}, p[0], flow.full());
  check_untouched({out[3], out[7]}, {p[1], p[3]});
  check_split({out.begin() + 4, out.begin() + 7}, p[2], flow.full());
}

TEST_CASE("Stream: what merges splits back into the same bytes", "[split][merge]") {
  const int version = GENERATE(4, 6);
  const Flow flow({version, 2, true});
  Bed bed;
  bed.open(flow);
  const auto merged = bed.merge(flow.run(0, 6));
  REQUIRE(merged.size() == 1);
  // The merged packet as an inside host of another gateway would send it.
  Flow back = flow;
  std::swap(back.inside, back.outside);
  std::swap(back.inside_port, back.outside_port);
  std::swap(back.inside_isn, back.outside_isn);
  back.opener = Opener::kOutside;
  Bed other;
  other.open(back);
  Frame jumbo{merged[0].frame};
  other.out({jumbo});
  const auto out = other.outside();
  REQUIRE(out.size() == 6);
  CHECK(same(payload_of(out), stream_of(flow.in(), 6u * flow.full())));
  for (const Decoded& d : out) CHECK(d.checksum_ok);
}
