// SPDX-License-Identifier: BSD-3-Clause
// Merging: the stream, its order, and when a merge ends.
#include "tests/support/checks.h"

using namespace test;

TEST_CASE("Stream: six full segments become one jumbo, a seventh doesn't fit", "[merge]") {
  const Shape shape = GENERATE(from_range(all_shapes()));
  CAPTURE(shape.version, shape.tags, shape.timestamps);
  const Flow flow(shape);
  Bed bed;
  bed.open(flow);
  std::vector<Tcp> parts;
  for (uint32_t i = 0; i < 7; ++i)
    parts.push_back(flow.in(i * flow.full(), flow.full()).window(static_cast<uint16_t>(500 + i)));
  const auto out = bed.merge({parts.begin(), parts.end()});
  INFO(text_of(out));
  REQUIRE(out.size() == 2);
  check_merged(out[0], {parts.begin(), parts.begin() + 6});
  check_untouched({out[1]}, {parts[6]});
  CHECK(out[0].ip_len <= 9000);
  CHECK(bed.count().engine.merge_end_full == 1);
  CHECK(bed.count().engine.merge_out_segs == 6);
}

TEST_CASE("Stream: chained input merges the same, wherever its buffers begin", "[merge]") {
  const int version = GENERATE(4, 6);
  const uint32_t cut = GENERATE(13u, 33u, 53u, 66u, 85u, 86u, 87u, 200u);
  const Flow flow({version, 0, true});
  Bed bed;
  bed.open(flow);
  std::vector<Tcp> parts;
  for (uint32_t i = 0; i < 5; ++i)
    parts.push_back(flow.in(i * flow.full(), flow.full()).cut({cut, cut + 1, 700}));
  const auto out = bed.merge({parts.begin(), parts.end()});
  REQUIRE(out.size() == 1);
  check_merged(out[0], parts);
}

TEST_CASE("Stream: nothing merges across a gap, an overlap or a repeat", "[merge]") {
  const int version = GENERATE(4, 6);
  const Flow flow({version, 0, true});
  const uint32_t f = flow.full();
  Bed bed;
  bed.open(flow);
  SECTION("a gap") {
    const std::vector<Tcp> p = {flow.in(0, f), flow.in(f, f), flow.in(3 * f, f), flow.in(4 * f, f)};
    const auto out = bed.merge({p.begin(), p.end()});
    REQUIRE(out.size() == 2);
    check_merged(out[0], {p[0], p[1]});
    check_merged(out[1], {p[2], p[3]});
    CHECK(bed.count().engine.merge_end_gap == 1);
  }
  SECTION("one byte missing or too many") {
    const std::vector<Tcp> p = {flow.in(0, f), flow.in(f + 1, f), flow.in(2 * f, f)};
    check_untouched(bed.merge({p.begin(), p.end()}), {p.begin(), p.end()});
  }
  SECTION("retransmissions pass as they are, with other boundaries too") {
    const std::vector<Tcp> p = {flow.in(0, f), flow.in(f, f), flow.in(0, f), flow.in(f, f),
                                flow.in(100, f), flow.in(2 * f, f)};
    const auto out = bed.merge({p.begin(), p.end()});
    INFO(text_of(out));
    REQUIRE(out.size() == 5);
    check_merged(out[0], {p[0], p[1]});
    check_untouched({out[1], out[2], out[3], out[4]}, {p[2], p[3], p[4], p[5]});
    CHECK(bed.count().pass_tcp_old == 3);
  }
  SECTION("a late segment fills a hole, and passes alone") {
    const std::vector<Tcp> p = {flow.in(f, f), flow.in(2 * f, f), flow.in(0, f), flow.in(3 * f, f)};
    const auto out = bed.merge({p.begin(), p.end()});
    REQUIRE(out.size() == 3);
    check_merged(out[0], {p[0], p[1]});
    check_untouched({out[1], out[2]}, {p[2], p[3]});
  }
}

TEST_CASE("Stream: keep-alives and window probes pass as they are", "[merge]") {
  const Flow flow;
  const uint32_t f = flow.full();
  Bed bed;
  bed.open(flow);
  bed.in(flow.run(0, 2));
  bed.forget();
  SECTION("keep-alive: one byte below what was sent, with and without it") {
    const std::vector<Frame> p = {flow.in(2 * f - 1, 1), flow.in(2 * f - 1, 0)};
    check_untouched(bed.merge(p), p);
  }
  SECTION("window probe that succeeds: one new byte between others") {
    const std::vector<Frame> p = {flow.in(2 * f, f), flow.in(3 * f, 1), flow.in(3 * f + 1, f)};
    check_untouched(bed.merge(p), p);
  }
  SECTION("window probe: one new byte") {
    const std::vector<Frame> p = {flow.in(2 * f, 1), flow.in(2 * f, 1), flow.in(2 * f, f)};
    check_untouched(bed.merge(p), p);
  }
}

TEST_CASE("Stream: sequence numbers wrap inside a merge", "[merge]") {
  const int version = GENERATE(4, 6);
  Flow flow({version, 0, true});
  flow.outside_isn = 0xffffffffu - 3000;
  flow.inside_isn = 0xfffffff0u;
  Bed bed;
  bed.open(flow);
  std::vector<Tcp> parts;
  for (uint32_t i = 0; i < 6; ++i)
    parts.push_back(flow.in(i * flow.full(), flow.full()).ack(flow.inside_isn + 1 + i * 10));
  const auto out = bed.merge({parts.begin(), parts.end()});
  REQUIRE(out.size() == 1);
  check_merged(out[0], parts);
}

TEST_CASE("Stream: segments of odd lengths merge", "[merge][checksum]") {
  const int version = GENERATE(4, 6);
  const size_t first = GENERATE(2u, 3u, 99u, 501u, 1447u);
  const Flow flow({version, 1, false});
  Bed bed;
  bed.open(flow);
  std::vector<Tcp> parts;
  uint32_t at = 0;
  for (size_t len : {first, size_t{7}, size_t{1400}, size_t{333}, size_t{2}}) {
    parts.push_back(flow.in(at, len));
    at += static_cast<uint32_t>(len);
  }
  const auto out = bed.merge({parts.begin(), parts.end()});
  INFO(text_of(out));
  CHECK(same(payload_of(out), stream_of(flow.in(), at)));
  for (const Decoded& d : out) CHECK((d.checksum_ok && d.trailer == 0));
}

TEST_CASE("Stream: Ethernet padding never becomes payload", "[merge]") {
  const Shape shape = GENERATE(from_range(all_shapes()));
  const Flow flow(shape);
  Bed bed;
  bed.open(flow);
  // Enough filler that a length taken from the frame would differ for every size.
  std::vector<Frame> in;
  uint32_t at = 0;
  for (size_t len : {100u, 1u, 2u, 3u, 4u, 5u, 6u, 2u, 2u}) {
    in.push_back(flow.in(at, len).pad_to(200));
    at += static_cast<uint32_t>(len);
  }
  const auto out = bed.merge(in);
  INFO(text_of(out));
  CHECK(same(payload_of(out), stream_of(flow.in(), at)));
  for (const Decoded& d : out) CHECK(d.checksum_ok);
}

TEST_CASE("Order: PSH and FIN end a merge and show on it", "[merge]") {
  const int version = GENERATE(4, 6);
  const Flow flow({version, 0, true});
  const uint32_t f = flow.full();
  Bed bed;
  bed.open(flow);
  SECTION("plain, plain, plain, PSH, FIN") {
    const std::vector<Tcp> p = {flow.in(0, f), flow.in(f, f), flow.in(2 * f, f),
                                flow.in(3 * f, f).flags(ACK | PSH),
                                flow.in(4 * f, f).flags(ACK | FIN)};
    const auto out = bed.merge({p.begin(), p.end()});
    INFO(text_of(out));
    REQUIRE(out.size() == 2);
    check_merged(out[0], {p.begin(), p.begin() + 4});
    check_untouched({out[1]}, {p[4]});
  }
  SECTION("FIN with data joins") {
    const std::vector<Tcp> p = {flow.in(0, f), flow.in(f, 10).flags(ACK | FIN | PSH)};
    const auto out = bed.merge({p.begin(), p.end()});
    REQUIRE(out.size() == 1);
    check_merged(out[0], p);
  }
  SECTION("PSH on every segment") {
    std::vector<Frame> p;
    for (uint32_t i = 0; i < 6; ++i) p.push_back(flow.in(i * f, f).flags(ACK | PSH));
    check_untouched(bed.merge(p), p);
  }
  SECTION("a bare FIN comes after the data before it") {
    const std::vector<Tcp> p = {flow.in(0, f), flow.in(f, f), flow.in(2 * f, 0).flags(ACK | FIN)};
    const auto out = bed.merge({p.begin(), p.end()});
    REQUIRE(out.size() == 2);
    check_merged(out[0], {p[0], p[1]});
    check_untouched({out[1]}, {p[2]});
  }
}

TEST_CASE("Order: RST, URG, SYN, reserved bits and segments without ACK flush, then pass alone", "[merge]") {
  const int version = GENERATE(4, 6);
  const unsigned kind = GENERATE(range(0u, 6u));
  const Flow flow({version, 1, true});
  const uint32_t f = flow.full();
  Bed bed;
  bed.open(flow);
  Tcp odd = flow.in(2 * f, 100);
  switch (kind) {
    case 0: odd.flags(RST | ACK); break;
    case 1: odd.flags(URG | ACK).urg(5); break;
    case 2: odd.flags(SYN).options({2, 4, 2, 0}); break;
    case 3: odd.flags(ACK | 0x200); break;
    case 4: odd.flags(ACK | 0x800); break;
    default: odd.flags(0); break;
  }
  CAPTURE(kind);
  const std::vector<Tcp> p = {flow.in(0, f), flow.in(f, f), odd};
  const auto out = bed.merge({p.begin(), p.end()});
  INFO(text_of(out));
  REQUIRE(out.size() == 2);
  check_merged(out[0], {p[0], p[1]});
  check_untouched({out[1]}, {p[2]});
}

TEST_CASE("Order: pure ACKs are never merged, held or thinned", "[merge]") {
  const int version = GENERATE(4, 6);
  const Flow flow({version, 0, true});
  const uint32_t f = flow.full();
  Bed bed;
  bed.open(flow);
  std::vector<Tcp> p = {flow.in(0, f), flow.in(f, f)};
  for (uint32_t i = 0; i < 20; ++i) {
    Tcp a = flow.in(2 * f).ack(flow.inside_isn + 1 + 100 * std::min(i, 15u));
    if (i >= 16 && i < 19)  // duplicates with SACK blocks
      a.option({1, 1, 5, 10, 0, 0, 1, 0, 0, 0, 1, static_cast<int>(i)});
    if (i == 5) a.window(9999);
    if (i == 7) a.add_flags(ECE);
    p.push_back(a);
  }
  p.push_back(flow.in(2 * f, f).ack(p.back().ack_no));
  const auto out = bed.merge({p.begin(), p.end()});
  INFO(text_of(out));
  REQUIRE(out.size() == 22);
  check_merged(out[0], {p[0], p[1]});
  check_untouched({out.begin() + 1, out.end()}, {p.begin() + 2, p.end()});
  CHECK(bed.count().pass_tcp_pure_ack >= 20);
}

TEST_CASE("Order: a packet of the flow that can't be translated comes after what is held", "[merge]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  const uint32_t f = flow.full();
  Bed bed;
  bed.open(flow);
  Tcp odd = flow.in(2 * f, 100);
  SECTION("IP options or extension headers") {
    odd.lower.ip_options = flow.v4() ? Bytes{1, 1, 1, 0} : Bytes{};
    odd.lower.extensions = {{60, Bytes(8)}};
  }
  SECTION("TCP options that don't parse") { odd.option({5, 0, 0, 0}); }
  SECTION("multipath") { odd.option({30, 4, 0x20, 0}); }
  SECTION("a signature") { odd.option({29, 4, 1, 1}); }
  SECTION("a data offset behind the packet's end") { odd.bytes({}).data_offset(15); }
  SECTION("a fragment between the same addresses") {
    odd.lower.mf = true;
    odd.lower.df = false;
    odd.lower.extensions = {{44, {0, 0, 0, 1, 0, 0, 0, 1}}};
  }
  SECTION("a later fragment between the same addresses") {
    odd.lower.df = false;
    odd.lower.frag_offset = 185;
    odd.lower.extensions = {{44, {0, 0, 0, 9, 0, 0, 0, 1}}};
  }
  const std::vector<Tcp> p = {flow.in(0, f), flow.in(f, f), odd};
  const auto out = bed.merge({p.begin(), p.end()});
  INFO(text_of(out));
  REQUIRE(out.size() == 2);
  check_merged(out[0], {p[0], p[1]});
  check_untouched({out[1]}, {p[2]});
}

TEST_CASE("Order: flows in one burst don't disturb each other", "[merge]") {
  Bed bed;
  std::vector<Flow> flows;
  for (uint16_t i = 0; i < 5; ++i) flows.emplace_back(Shape{i % 2 != 0 ? 4 : 6, i % 3, true}, i);
  for (const Flow& f : flows) bed.open(f);
  std::vector<Frame> in;
  for (uint32_t i = 0; i < 6; ++i)
    for (const Flow& f : flows) in.push_back(f.in(i * f.full(), f.full()));
  const auto out = bed.merge(in);
  INFO(text_of(out));
  CHECK(out.size() == 5);
  for (const Decoded& d : out) CHECK(d.payload.size() > 8000);
}

TEST_CASE("Order: a drain and a change of policy send what is held, in order", "[merge]") {
  const Flow flow;
  Bed bed;
  uint32_t at = bed.open_bulk(flow);
  bed.in(flow.run(at, 2));
  REQUIRE(bed.inside().empty());
  SECTION("drain") { bed.drain(); }
  SECTION("another policy") {
    pxgw::Policy p;
    p.inside_mtu = 4000;
    bed.apply(p);
  }
  const auto out = bed.inside();
  REQUIRE(out.size() == 1);
  CHECK(out[0].payload.size() == 2u * flow.full());
}
