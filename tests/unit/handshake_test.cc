// SPDX-License-Identifier: BSD-3-Clause
// MSS: how inside hosts come to send jumbos, and who isn't told to.
#include "tests/support/checks.h"

using namespace test;

namespace {

// `out` is the SYN `t` with its first MSS option saying `mss`, and nothing else changed.
void check_mss(const std::vector<Decoded>& out, const Tcp& t, unsigned mss) {
  REQUIRE(out.size() == 1);
  const Decoded& d = out[0];
  INFO(d.text());
  CHECK(d.mss() == mss);
  CHECK(d.checksum_ok);
  Tcp want = t;
  for (size_t i = 0; i + 4 <= want.opts.size();) {
    if (want.opts[i] == 1) {
      ++i;
      continue;
    }
    if (want.opts[i] == 2) {
      want.opts[i + 2] = static_cast<uint8_t>(mss >> 8);
      want.opts[i + 3] = static_cast<uint8_t>(mss);
      break;
    }
    i += want.opts[i + 1];
  }
  CHECK(to_hex(d.frame, 200) == to_hex(want.build().bytes, 200));
}

bool merges(Bed& bed, const Flow& flow) {
  bed.forget();
  const auto out = bed.merge(flow.run(0, 4));
  CHECK(same(payload_of(out), stream_of(flow.in(), 4u * flow.full())));
  return out.size() == 1;
}

}  // namespace

TEST_CASE("MSS: SYN and SYN-ACK are raised inward and lowered outward", "[mss]") {
  const Shape shape = GENERATE(from_range(all_shapes()));
  Flow flow(shape);
  flow.opener = GENERATE(Opener::kInside, Opener::kOutside);
  const bool odd = GENERATE(false, true);
  if (odd) flow.syn_options = {1, 3, 3, 7, 1, 1, 4, 2};
  CAPTURE(shape.version, shape.tags, shape.timestamps, odd);
  const unsigned inside_max = flow.v4() ? 8960 : 8940, outside_max = flow.v4() ? 1460 : 1440;
  Bed bed;
  if (flow.opener == Opener::kInside) {
    bed.out({flow.syn()});
    check_mss(bed.outside(), flow.syn(), outside_max);
    bed.in({flow.syn_ack()});
    check_mss(bed.inside(), flow.syn_ack(), inside_max);
    bed.out({flow.third()});
  } else {
    bed.in({flow.syn()});
    check_mss(bed.inside(), flow.syn(), inside_max);
    bed.out({flow.syn_ack()});
    check_mss(bed.outside(), flow.syn_ack(), outside_max);
    bed.in({flow.third()});
  }
  CHECK(bed.count().syn_raised == 1);
  CHECK(bed.count().syn_lowered == 1);
  CHECK(merges(bed, flow));
}

TEST_CASE("MSS: retransmitted SYNs are rewritten each time", "[mss]") {
  Flow flow({GENERATE(4, 6), 0, true});
  flow.opener = GENERATE(Opener::kInside, Opener::kOutside);
  const bool inside = flow.opener == Opener::kInside;
  const auto first = inside ? pxio::Direction::kOutbound : pxio::Direction::kInbound;
  const unsigned in_max = flow.v4() ? 8960 : 8940, out_max = flow.v4() ? 1460 : 1440;
  Bed bed;
  for (int i = 0; i < 4; ++i) {
    bed.process(first, {flow.syn()});
    check_mss(inside ? bed.outside() : bed.inside(), flow.syn(), inside ? out_max : in_max);
    if (i == 3) break;
    bed.advance(std::chrono::seconds(1 << i));
    bed.housekeeping(100);
  }
  for (int i = 0; i < 3; ++i) {
    bed.process(pxio::reverse(first), {flow.syn_ack()});
    check_mss(inside ? bed.inside() : bed.outside(), flow.syn_ack(), inside ? in_max : out_max);
  }
  bed.process(first, {flow.third()});
  CHECK(merges(bed, flow));
}

TEST_CASE("MSS: a simultaneous open rewrites both SYNs", "[mss]") {
  const Flow flow;
  Bed bed;
  const Tcp a = flow.syn();
  Tcp b = flow.in().seq(flow.outside_isn).ack(0).flags(SYN).options({2, 4, 5, 180});
  bed.out({a});
  check_mss(bed.outside(), a, 1460);
  bed.in({b});
  check_mss(bed.inside(), b, 8960);
}

TEST_CASE("MSS: values are clamped, never made larger than they may be", "[mss]") {
  Flow flow({GENERATE(4, 6), 0, false});
  const unsigned out_max = flow.v4() ? 1460 : 1440;
  Bed bed;
  SECTION("outward: a smaller value stays") {
    for (unsigned v : {0u, 1u, 536u, 1300u, out_max, out_max + 1, 65535u}) {
      flow.inside_mss = static_cast<uint16_t>(v);
      bed.out({flow.syn()});
      check_mss(bed.outside(), flow.syn(), std::min(v, out_max));
    }
  }
  SECTION("inward: raised from the least legal value on") {
    const unsigned least = flow.v4() ? 536 : 1220, in_max = flow.v4() ? 8960 : 8940;
    for (unsigned v : {0u, 1u, 8u, 48u, least - 1, least, 1300u, 9000u, 65535u}) {
      Flow other(flow.shape, static_cast<uint16_t>(2 + v % 1000));
      other.outside_mss = static_cast<uint16_t>(v);
      bed.out({other.syn()});
      bed.forget();
      const auto out = bed.merge({other.syn_ack()});
      REQUIRE(out.size() == 1);
      CAPTURE(v);
      if (v < least) {
        check_untouched(out, {other.syn_ack()});
      } else {
        CHECK(out[0].mss() >= std::min(v, in_max));
        if (v <= in_max) CHECK(out[0].mss() == in_max);
      }
    }
    CHECK(bed.count().syn_left_small == 5);
  }
  SECTION("the configured MTUs count") {
    pxgw::Policy policy;
    policy.inside_mtu = 4000;
    policy.outside_mtu = 1400;
    Bed narrow(policy);
    narrow.out({flow.syn()});
    check_mss(narrow.outside(), flow.syn(), 1400u - flow.ip_len() - 20);
    narrow.in({flow.syn_ack()});
    check_mss(narrow.inside(), flow.syn_ack(), 4000u - flow.ip_len() - 20);
  }
}

TEST_CASE("MSS: no option is ever inserted", "[mss]") {
  Flow flow({GENERATE(4, 6), 0, false});
  Bed bed;
  const std::vector<Frame> out_syn = {flow.syn().options({}), flow.syn().options(Bytes(40, 1)),
                                      flow.syn().options({1, 3, 3, 7}).data(100)};
  bed.out(out_syn);
  check_untouched(bed.outside(), out_syn);
  const std::vector<Frame> in_syn = {flow.syn_ack().options({}), flow.syn_ack().options(Bytes(40, 1))};
  check_untouched(bed.merge(in_syn), in_syn);
  CHECK(bed.count().syn_left_no_mss == 5);
}

TEST_CASE("MSS: options that don't parse leave the SYN alone, and its flow", "[mss]") {
  const int version = GENERATE(4, 6);
  const Flow flow({version, 0, false});
  const std::vector<Bytes> bad = {
      {2, 4, 35, 0, 5, 0, 0, 0},                  // length 0
      {2, 4, 35, 0, 5, 1, 0, 0},                  // length 1
      {2, 4, 35, 0, 5, 255, 0, 0},                // longer than the header
      {1, 1, 1, 8},                               // a kind as the last byte
      {1, 2, 4, 35},                              // MSS cut by the header's end
      {2, 3, 35, 1}, {2, 5, 35, 0, 0, 1, 1, 1},  // MSS of the wrong length
      {2, 0, 35, 0},
  };
  for (const Bytes& b : bad) {
    Bed bed;
    INFO(to_hex(b));
    const std::vector<Frame> s = {flow.syn().options(b)};
    bed.out(s);
    check_untouched(bed.outside(), s);
    const std::vector<Frame> a = {flow.syn_ack().options(b)};
    check_untouched(bed.merge(a), a);
    CHECK(bed.count().syn_left_options == 2);
    bed.out({flow.third()});
    CHECK(!merges(bed, flow));
  }
}

TEST_CASE("MSS: each of several options is rewritten, one behind the end isn't", "[mss]") {
  const Flow flow({4, 0, false});
  Bed bed;
  bed.out({flow.syn().options({2, 4, 35, 0, 1, 2, 4, 30, 0, 1, 1, 1})});
  auto out = bed.outside();
  REQUIRE(out.size() == 1);
  CHECK(out[0].options == Bytes{2, 4, 5, 180, 1, 2, 4, 5, 180, 1, 1, 1});
  CHECK(out[0].checksum_ok);
  const std::vector<Frame> behind = {flow.syn().options({0, 2, 4, 35, 0, 0, 0, 0})};
  bed.out(behind);
  check_untouched(bed.outside(), behind);
}

TEST_CASE("MSS: a wrong checksum stays as wrong", "[mss]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.out({flow.syn().damage()});
  const auto out = bed.outside();
  REQUIRE(out.size() == 1);
  CHECK(!out[0].checksum_ok);
}

TEST_CASE("Untouched: signed connections, from SYN to data", "[mss]") {
  const int version = GENERATE(4, 6);
  Flow flow({version, 0, false});
  const bool md5 = GENERATE(true, false);
  Bytes sig = md5 ? Bytes(18, 7) : Bytes{29, 16, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  if (md5) sig[0] = 19, sig[1] = 18;
  flow.syn_options = sig;
  Bed bed;
  std::vector<Frame> p = {flow.syn()};
  bed.out(p);
  check_untouched(bed.outside(), p);
  p = {flow.syn_ack()};
  check_untouched(bed.merge(p), p);
  p = {flow.third().options(sig)};
  bed.out(p);
  check_untouched(bed.outside(), p);
  p.clear();
  for (uint32_t i = 0; i < 4; ++i) p.push_back(flow.in(i * 1400, 1400).options(sig));
  check_untouched(bed.merge(p), p);
  CHECK(bed.count().syn_left_signed == 2);
  // Too large to leave, and not to be split: the inside host is told.
  bed.out({flow.out(0, 3000).options(sig)});
  CHECK(bed.outside().empty());
  const auto told = bed.inside();
  REQUIRE(told.size() == 1);
  CHECK(told[0].proto == (version == 4 ? 1 : 58));
}

TEST_CASE("Untouched: Fast Open and multipath SYNs keep their options and data", "[mss]") {
  Flow flow({GENERATE(4, 6), 0, false});
  Bed bed;
  SECTION("Fast Open with data") {
    flow.syn_options = {34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1};
    const Tcp t = flow.syn().data(1200);
    bed.out({t});
    check_mss(bed.outside(), t, flow.v4() ? 1460 : 1440);
  }
  SECTION("MP_CAPABLE") {
    flow.syn_options = {30, 12, 1, 0x81, 1, 2, 3, 4, 5, 6, 7, 8};
    bed.out({flow.syn()});
    const auto out = bed.outside();
    REQUIRE(out.size() == 1);
    CHECK(Bytes(out[0].options.begin() + 4, out[0].options.end()) == flow.syn_options);
  }
}

TEST_CASE("Untouched: segments with multipath mappings aren't merged", "[mss]") {
  const Flow flow({GENERATE(4, 6), 0, false});
  Bed bed;
  bed.open(flow);
  const std::vector<Frame> p = {
      flow.in(0, 1000).option({30, 8, 0x20, 1, 0, 0, 0, 1}),
      flow.in(1000, 1000).option({30, 8, 0x20, 1, 0, 0, 0, 1}), flow.in(2000, 1000)};
  check_untouched(bed.merge(p), p);
}

TEST_CASE("Bounded: only a valid third segment makes a flow", "[mss]") {
  Flow flow({GENERATE(4, 6), 0, true});
  flow.opener = GENERATE(Opener::kInside, Opener::kOutside);
  const auto first = flow.opener == Opener::kInside ? pxio::Direction::kOutbound : pxio::Direction::kInbound;
  Bed bed;
  SECTION("SYN, SYN-ACK over and over") {
    for (int i = 0; i < 10; ++i) {
      bed.process(first, {flow.syn()});
      bed.process(pxio::reverse(first), {flow.syn_ack()});
    }
    CHECK(bed.count().flows == 0);
  }
  SECTION("an acknowledgement of something else") {
    bed.process(first, {flow.syn()});
    bed.process(pxio::reverse(first), {flow.syn_ack()});
    Tcp t = flow.third();
    bed.process(first, {t.ack(t.ack_no + 0x40000000)});
    CHECK(bed.count().flows == 0);
  }
  SECTION("a sequence number from elsewhere") {
    bed.process(first, {flow.syn()});
    bed.process(pxio::reverse(first), {flow.syn_ack()});
    Tcp t = flow.third();
    bed.process(first, {t.seq(t.seq_no + 0x40000000)});
    CHECK(bed.count().flows == 0);
  }
  SECTION("RST") {
    bed.process(first, {flow.syn()});
    bed.process(pxio::reverse(first), {flow.syn_ack()});
    bed.process(first, {flow.third().flags(RST | ACK)});
    CHECK(bed.count().flows == 0);
  }
  SECTION("without the SYN-ACK") {
    bed.process(first, {flow.syn()});
    bed.process(first, {flow.third()});
    CHECK(bed.count().flows == 0);
  }
  SECTION("the right one") {
    bed.open(flow);
    CHECK(bed.count().flows == 1);
  }
  // Where the outside opens, its data would complete the handshake as well.
  if (bed.count().flows == 0 && flow.opener == Opener::kInside) CHECK(!merges(bed, flow));
}

TEST_CASE("Sizes: a third segment that is lost is made up for by data", "[mss]") {
  Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.out({flow.syn()});
  bed.in({flow.syn_ack()});
  bed.forget();
  const Tcp t = flow.out(0, 8000).flags(ACK | PSH);
  bed.out({t});
  check_split(bed.outside(), t, flow.full());
  CHECK(merges(bed, flow));
}

TEST_CASE("Sizes: an inside host with a small MSS gets small packets", "[mss]") {
  Flow flow({GENERATE(4, 6), 0, true});
  flow.inside_mss = flow.v4() ? 1460 : 1440;
  flow.opener = GENERATE(Opener::kInside, Opener::kOutside);
  Bed bed;
  bed.open(flow);
  const auto p = flow.run(0, 6);
  check_untouched(bed.merge(p), p);
  CHECK(bed.count().pass_tcp_small_mss == 6);
}

TEST_CASE("Sizes: the inside host's own MSS bounds a merge", "[mss]") {
  Flow flow({GENERATE(4, 6), 0, true});
  flow.inside_mss = 4000;
  Bed bed;
  bed.open(flow);
  const auto out = bed.merge(flow.run(0, 6));
  INFO(text_of(out));
  CHECK(out.size() == 3);
  for (const Decoded& d : out) CHECK(d.ip_len <= 4000u + flow.ip_len() + 20);
}

TEST_CASE("Untouched: flows whose handshake wasn't seen aren't merged", "[mss]") {
  const Flow flow({GENERATE(4, 6), GENERATE(0, 1, 2), true});
  Bed bed;
  const auto p = flow.run(0, 6);
  check_untouched(bed.merge(p), p);
  CHECK(bed.count().pass_tcp_unknown == 6);
}

TEST_CASE("Sizes: inside prefixes configured as jumbo are learnt without a handshake", "[mss]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  pxgw::Policy policy;
  pxgw::Prefix prefix;
  prefix.version = static_cast<uint8_t>(flow.shape.version);
  prefix.bits = 16;
  prefix.addr = flow.inside;
  policy.jumbo = {prefix};
  Bed bed(policy);
  bed.out({flow.out(0, 100)});
  CHECK(merges(bed, flow));
}

TEST_CASE("Untouched: excluded prefixes, either end", "[mss]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  pxgw::Policy policy;
  pxgw::Prefix prefix;
  prefix.version = static_cast<uint8_t>(flow.shape.version);
  prefix.bits = flow.v4() ? 32 : 128;
  prefix.addr = GENERATE(true, false) ? flow.inside : flow.outside;
  policy.exclude = {prefix};
  Bed bed(policy);
  std::vector<Frame> p = {flow.syn()};
  bed.out(p);
  check_untouched(bed.outside(), p);
  p = {flow.syn_ack()};
  check_untouched(bed.merge(p), p);
  bed.out({flow.third()});
  CHECK(!merges(bed, flow));
  CHECK(bed.count().pass_excluded >= 2);
  // Others are translated as ever.
  Flow other(flow.shape, 2);
  bed.open(other);
  CHECK(merges(bed, other));
}

TEST_CASE("Untouched: with prefixes to include, all others", "[mss]") {
  const Flow flow;
  pxgw::Policy policy;
  pxgw::Prefix prefix;
  prefix.bits = 24;
  prefix.addr = addr4(10, 9, 9, 0);
  policy.include = {prefix};
  Bed bed(policy);
  bed.open(flow);
  CHECK(!merges(bed, flow));
  Flow in_it(Shape{}, 3);
  in_it.inside = addr4(10, 9, 9, 7);
  bed.open(in_it);
  CHECK(merges(bed, in_it));
}

TEST_CASE("MSS: a new connection on the same ports is learnt anew", "[mss]") {
  Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  CHECK(merges(bed, flow));
  const uint32_t end = 4u * flow.full();
  bed.in({flow.in(end).flags(ACK | FIN)});
  bed.out({flow.out().flags(ACK | FIN).ack(flow.outside_isn + 2 + end)});
  bed.in({flow.in(end + 1).ack(flow.inside_isn + 2)});
  // Other sequence numbers, and an inside end that takes no jumbos any more.
  flow.inside_isn += 0x10000000;
  flow.outside_isn -= 0x20000000;
  SECTION("jumbos again") {
    bed.open(flow);
    CHECK(merges(bed, flow));
  }
  SECTION("small now") {
    flow.inside_mss = 1300;
    flow.outside_mss = 1300;
    bed.open(flow);
    CHECK(!merges(bed, flow));
    const Tcp t = flow.out(0, 5000);
    bed.forget();
    bed.out({t});
    check_split(bed.outside(), t, 1300u - 12);
  }
}

TEST_CASE("Order: a SYN on a live flow's ports flushes, and a stray one changes nothing", "[mss]") {
  const Flow flow;
  Bed bed;
  const uint32_t at = bed.open_bulk(flow);
  bed.in(flow.run(at, 2));
  REQUIRE(bed.inside().empty());
  Tcp stray = flow.in().seq(77).ack(0).flags(SYN).options({2, 4, 2, 0});
  auto out = bed.merge({stray});
  REQUIRE(out.size() == 2);
  CHECK(out[0].payload.size() == 2u * flow.full());
  CHECK(out[1].flags == SYN);
  bed.in(flow.run(at + 2u * flow.full(), 3));
  bed.advance(std::chrono::milliseconds(1));
  out = bed.inside();
  CHECK(same(payload_of(out), stream_of(flow.in(at + 2u * flow.full()), 3u * flow.full())));
}
