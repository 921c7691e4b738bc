// SPDX-License-Identifier: BSD-3-Clause
// Path MTU: errors about split segments, and errors that we send.
#include "tests/support/checks.h"

using namespace test;

namespace {

// A router's error about a segment that the gateway sent outside, with a quote of `quote_len` bytes.
Frame error_about(const Flow& flow, const Decoded& segment, uint32_t mtu, size_t quote_len = 0) {
  Lower lo = flow.in().lower;
  lo.src = flow.v4() ? addr4(192, 0, 2, 9) : addr6(0x2001, 0xdb8, 0x99);
  Bytes quote = segment.ip();
  quote.resize(quote_len != 0 ? quote_len : flow.ip_len() + 8u);
  return too_big(lo, mtu, quote);
}

size_t piece_for(const Flow& flow, size_t mtu) { return mtu - flow.ip_len() - 20u - flow.ts_len(); }

struct Split {
  Bed& bed;
  const Flow& flow;
  uint32_t at = 0;
  std::vector<Decoded> operator()(size_t len = 8000) {
    bed.out({flow.out(at, len)});
    at += static_cast<uint32_t>(len);
    return bed.outside();
  }
};

}  // namespace

TEST_CASE("Sizes: a too-big error about a split segment lowers the size, and stays outside", "[icmp]") {
  const Flow flow({GENERATE(4, 6), GENERATE(0, 1, 2), GENERATE(true, false)});
  const size_t quote = GENERATE(size_t{0}, size_t{500});
  Bed bed;
  bed.open(flow);
  Split split{bed, flow};
  const auto before = split();
  REQUIRE(before.size() >= 6);
  bed.in({error_about(flow, before[1], 1400, quote)});
  CHECK(bed.inside().empty());
  CHECK(bed.count().ptb_taken == 1);
  CHECK(bed.count().pmtu_lowered == 1);
  const Tcp t = flow.out(split.at, 8000);
  bed.out({t});
  check_split(bed.outside(), t, piece_for(flow, 1400));
  SECTION("what just fitted before is split now") {
    const Tcp u = flow.out(16000, flow.full());
    bed.out({u});
    check_split(bed.outside(), u, piece_for(flow, 1400));
  }
  SECTION("for other flows to the same destination too") {
    Flow other = flow;
    other.inside_port = 50000;
    bed.open(other);
    const Tcp u = other.out(0, 8000);
    bed.out({u});
    check_split(bed.outside(), u, piece_for(flow, 1400));
  }
  SECTION("not for other destinations") {
    Flow other(flow.shape, 9);
    bed.open(other);
    const Tcp u = other.out(0, 8000);
    bed.out({u});
    check_split(bed.outside(), u, piece_for(flow, 1500));
  }
  SECTION("a later, larger value doesn't raise it again") {
    bed.in({error_about(flow, before[1], 1450)});
    const Tcp u = flow.out(split.at + 8000, 8000);
    bed.out({u});
    check_split(bed.outside(), u, piece_for(flow, 1400));
  }
}

TEST_CASE("Sizes: too-big errors that don't fit the flow are dropped", "[icmp]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  Split split{bed, flow};
  const auto before = split();
  SECTION("values out of range") {
    for (uint32_t mtu : {0u, 1u, 68u, 255u, 1500u, 1501u, 9000u, 65535u})
      bed.in({error_about(flow, before[1], mtu)});
    CHECK(bed.count().ptb_ignored + bed.count().ptb_taken + bed.count().ptb_passed == 8);
  }
  SECTION("a sequence number that isn't in flight") {
    Tcp t = flow.out(0x10000000, 1000);
    bed.in({error_about(flow, decode(t.build().bytes), 1300)});
    t = flow.out(0xf0000000, 1000);
    bed.in({error_about(flow, decode(t.build().bytes), 1300)});
    CHECK(bed.count().ptb_ignored == 2);
  }
  SECTION("a wrong ICMP checksum") {
    Frame f = error_about(flow, before[1], 1300);
    f.bytes.back() ^= 1;
    bed.in({f});
  }
  CHECK(bed.count().pmtu_lowered == 0);
  const Tcp t = flow.out(split.at, 8000);
  bed.out({t});
  check_split(bed.outside(), t, flow.full());
}

TEST_CASE("Untouched: too-big errors about what isn't ours pass on", "[icmp]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  SECTION("an unknown flow") {
    const std::vector<Frame> p = {error_about(flow, decode(flow.out(0, 1000).build().bytes), 1400)};
    bed.in(p);
    check_untouched(bed.inside(), p);
    CHECK(bed.count().ptb_passed == 1);
  }
  SECTION("UDP") {
    Lower lo = flow.out().lower;
    const Frame u = udp(lo, 1, 2, 1000);
    const std::vector<Frame> p = {error_about(flow, decode(u.bytes), 1400)};
    bed.in(p);
    check_untouched(bed.inside(), p);
  }
  SECTION("other ICMP messages, and quotes cut short") {
    std::vector<Frame> p = {error_about(flow, decode(flow.out(0, 1000).build().bytes), 1400, 20)};
    Frame echo = error_about(flow, decode(flow.out(0, 1000).build().bytes), 1400);
    echo.bytes[14u + flow.ip_len()] = flow.v4() ? 8 : 128;
    p.push_back(echo);
    bed.in(p);
    check_untouched(bed.inside(), p);
  }
}

TEST_CASE("Sizes: the same segment sent again and again at full size means a smaller path", "[icmp]") {
  const Flow flow({GENERATE(4, 6), 0, GENERATE(true, false)});
  Bed bed;
  bed.open(flow);
  const Tcp t = flow.out(0, flow.jumbo());
  const auto largest = [&] {
    size_t n = 0;
    for (const Decoded& d : bed.outside()) n = std::max(n, d.ip_len);
    return n;
  };
  bed.out({t});
  CHECK(largest() == 1500);
  size_t last = 1500, steps = 0;
  for (int i = 0; i < 12; ++i) {
    bed.advance(std::chrono::milliseconds(300 << std::min(i, 4)));
    bed.out({t});
    const size_t now = largest();
    CHECK(now <= last);
    if (now < last) {
      CHECK(now == (steps == 0 ? 1400u : 1280u));
      ++steps;
    }
    last = now;
  }
  CHECK(steps == 2);
}

TEST_CASE("Sizes: progress between repeats is no evidence", "[icmp]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  uint32_t at = 0;
  for (int i = 0; i < 20; ++i) {
    bed.out({flow.out(at, 8000)});
    bed.out({flow.out(at, 8000)});  // each one once again
    at += 8000;
    bed.in({flow.in().ack(flow.inside_isn + 1 + at)});
    bed.advance(std::chrono::milliseconds(50));
  }
  CHECK(bed.count().pmtu_lowered == 0);
}

TEST_CASE("Sizes: packets that can't be split are fragmented without DF, else their sender is told",
          "[icmp]") {
  Flow flow({GENERATE(4, 6), GENERATE(0, 1), true});
  pxgw::Policy policy;
  policy.icmp_from4 = {192, 0, 2, 1};
  policy.icmp_from6 = addr6(0x2001, 0xdb8, 0x11);
  Bed bed(policy);
  Lower lo = flow.out().lower;
  const bool df = GENERATE(true, false);
  lo.df = df;
  lo.id = 99;
  const Frame u = udp(lo, 5000, 53, 4000);
  bed.out({u});
  const auto out = bed.outside(), in = bed.inside();
  INFO(text_of(out) << text_of(in));
  if (flow.v4() && !df) {
    REQUIRE(out.size() == 3);
    CHECK(in.empty());
    Bytes l4;
    for (size_t i = 0; i < out.size(); ++i) {
      const Decoded& d = out[i];
      CHECK(d.ip_ok);
      CHECK(d.ip_len <= 1500);
      CHECK(d.id == 99);
      CHECK(!d.df);
      CHECK(d.mf == (i + 1 != out.size()));
      CHECK(d.frag_offset * 8u == l4.size());
      CHECK(d.tags == lo.tags);
      l4.insert(l4.end(), d.l4.begin(), d.l4.end());
    }
    CHECK(l4 == decode(u.bytes).l4);
    CHECK(bed.count().frag_in_pkts == 1);
    CHECK(bed.count().frag_out_pkts == 3);
  } else {
    CHECK(out.empty());
    REQUIRE(in.size() == 1);
    const Decoded& e = in[0];
    CHECK(e.checksum_ok);
    CHECK(e.ip_ok);
    CHECK(e.dst == flow.inside);
    CHECK(e.src == (flow.v4() ? addr4(192, 0, 2, 1) : addr6(0x2001, 0xdb8, 0x11)));
    CHECK(e.dst_mac == lo.src_mac);
    CHECK(e.tags == lo.tags);
    REQUIRE(e.l4.size() >= 8u + flow.ip_len() + 8u);
    CHECK(e.l4[0] == (flow.v4() ? 3 : 2));
    CHECK(e.l4[1] == (flow.v4() ? 4 : 0));
    CHECK((e.l4[6] << 8 | e.l4[7]) == 1500);
    CHECK(e.ip_len <= (flow.v4() ? 576 : 1280));
    // The quote is the start of what was too big.
    const Bytes ip = decode(u.bytes).ip();
    CHECK(std::equal(e.l4.begin() + 8, e.l4.end(), ip.begin()));
    CHECK(bed.count().icmp_sent == 1);
    CHECK(bed.count().drop_too_big == 1);
  }
}

TEST_CASE("Bounded: errors are rate-limited and counted", "[icmp]") {
  Flow flow({GENERATE(4, 6), 0, true});
  pxgw::Policy policy;
  policy.icmp_per_second = 10;
  Bed bed(policy);
  Lower lo = flow.out().lower;
  for (int i = 0; i < 200; ++i) bed.out({udp(lo, 5000, 53, 4000)});
  CHECK(bed.inside().size() <= 11);
  CHECK(bed.count().icmp_sent + bed.count().icmp_limited == 200);
  CHECK(bed.count().drop_too_big == 200);
  bed.advance(std::chrono::seconds(10));
  bed.out({udp(lo, 5000, 53, 4000)});
  CHECK(bed.inside().size() == 1);
}

TEST_CASE("Sizes: no error about an error, a later fragment or a group address", "[icmp]") {
  Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  Lower lo = flow.out().lower;
  SECTION("an ICMP error") { bed.out({too_big(lo, 1400, Bytes(3000))}); }
  SECTION("multicast") {
    lo.dst = flow.v4() ? addr4(224, 0, 0, 5) : addr6(0xff02, 0, 5);
    bed.out({udp(lo, 1, 2, 3000)});
  }
  SECTION("a later fragment") {
    if (!flow.v4()) return;
    lo.frag_offset = 100;
    bed.out({udp(lo, 1, 2, 3000)});
  }
  CHECK(bed.inside().empty());
  for (const Decoded& d : bed.outside()) CHECK(d.ip_len <= 1500);
}
