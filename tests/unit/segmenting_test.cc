// SPDX-License-Identifier: BSD-3-Clause
// Packets that their port cuts (TSO, GSO): the wire carries what software would have sent, byte for byte.
#include "pxio/dp/segmenting.h"

#include "tests/support/checks.h"

using namespace test;

namespace {

pxio::Segmenting nic() { return {.able = true}; }
pxio::Segmenting kernel() { return {.able = true, .knows_cwr = true}; }

struct Sent {
  std::vector<Decoded> frames;
  uint64_t cut_by_port = 0;
  pxgw::Counters count;
};

// What leaves outside when an inside host sends `t`, with a port that cuts or without.
Sent send(const Flow& flow, const Frame& t, const pxio::Segmenting& port, bool known = true) {
  Bed bed({}, small_capacity(), nullptr, port);
  if (known) bed.open(flow);
  bed.out({t});
  return {bed.outside(), bed.outside_port().cut, bed.count()};
}

void check_equal(const Sent& a, const Sent& b) {
  REQUIRE(a.frames.size() == b.frames.size());
  for (size_t i = 0; i < a.frames.size(); ++i) {
    INFO("segment " << i << ": " << a.frames[i].text() << " / " << b.frames[i].text());
    CHECK(same(a.frames[i].frame, b.frames[i].frame));
  }
  CHECK(a.count.to_outside_pkts == b.count.to_outside_pkts);
  CHECK(a.count.to_outside_bytes == b.count.to_outside_bytes);
  CHECK(a.count.size_out == b.count.size_out);
  CHECK(a.count.engine.split_in_pkts == b.count.engine.split_in_pkts);
  CHECK(a.count.engine.split_out_segs == b.count.engine.split_out_segs);
}

}  // namespace

TEST_CASE("Offloads: TSO and software split put the same bytes on the wire", "[tso]") {
  const Shape shape = GENERATE(from_range(all_shapes()));
  Flow flow(shape);
  const size_t len = GENERATE(size_t{1461}, size_t{2 * 1448}, size_t{2 * 1448 + 1}, size_t{5000}, size_t{8960 - 12});
  const uint16_t flags = GENERATE(uint16_t{ACK}, uint16_t{ACK | PSH}, uint16_t{ACK | PSH | FIN}, uint16_t{ACK | ECE});
  const bool known = GENERATE(true, false);
  const bool good = GENERATE(true, false);
  Tcp t = flow.out(0, len).flags(flags).id(0xfffe).cut({90, 2000, 2100});
  t.rx(good ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : 0);
  CAPTURE(shape.version, shape.tags, shape.timestamps, len, flags, known, good);
  const Sent software = send(flow, t, {}, known);
  for (const pxio::Segmenting& port : {nic(), kernel()}) {
    const Sent hardware = send(flow, t, port, known);
    check_equal(hardware, software);
    CHECK(hardware.cut_by_port == 1);
    CHECK(hardware.count.engine.split_by_port == 1);
    CHECK(software.count.engine.split_by_port == 0);
  }
}

TEST_CASE("Offloads: 64 KB that came merged are cut by the port, either way", "[tso][lro]") {
  Flow flow({GENERATE(4, 6), GENERATE(0, 1), true});
  const uint64_t lro = RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  std::vector<uint32_t> cuts;
  for (uint32_t at = 2000; at < 65000; at += 2000) cuts.push_back(at);
  std::vector<Sent> in, out;
  for (const pxio::Segmenting& port : {pxio::Segmenting{}, kernel()}) {
    Bed bed({}, small_capacity(), nullptr, port);
    bed.open(flow);
    bed.out({flow.out(0, 7 * size_t{flow.jumbo()}).rx(lro, flow.jumbo()).cut(cuts)});
    out.push_back({bed.outside(), 0, bed.count()});
    bed.in({flow.in(0, 44 * size_t{flow.full()}).rx(lro, flow.full()).cut(cuts)});
    in.push_back({bed.inside(), 0, bed.count()});
    CHECK(bed.outside_port().cut + bed.inside_port().cut == (port.able ? 2 : 0));
    CHECK(bed.count().engine.merge_bulk_in == 44);
    CHECK(bed.count().engine.merge_bulk_full == 42);
    for (const Decoded& d : in.back().frames) CHECK(d.ip_len <= 9000);
  }
  check_equal(out[1], out[0]);
  check_equal(in[1], in[0]);
}

TEST_CASE("Checksums: a damaged jumbo isn't made good by the port that would cut it", "[tso]") {
  Flow flow({GENERATE(4, 6), 0, true});
  // What the inside port says of it: nothing, or that it is bad.
  const uint64_t verdict = GENERATE(uint64_t{0}, RTE_MBUF_F_RX_L4_CKSUM_BAD);
  const Sent s = send(flow, flow.out(0, 5000).damage().rx(verdict), nic());
  CHECK(s.frames.empty());
  CHECK(s.count.drop_split_checksum == 1);
}

TEST_CASE("Headers: CWR and AccECN never reach a NIC's TSO", "[tso]") {
  Flow flow;
  flow.syn_flags = GENERATE(uint16_t{0}, uint16_t{ECE | CWR}, uint16_t{AE | CWR | ECE});
  flow.syn_ack_flags = flow.syn_flags == 0 ? 0 : flow.syn_flags == (ECE | CWR) ? ECE : CWR;
  const uint16_t mark = GENERATE(uint16_t{CWR}, uint16_t{AE}, uint16_t{CWR | ECE}, uint16_t{AE | CWR});
  const Tcp t = flow.out(0, 8000).flags(static_cast<uint16_t>(ACK | mark));
  CAPTURE(flow.syn_flags, mark);
  const Sent software = send(flow, t, {}), hardware = send(flow, t, nic());
  check_equal(hardware, software);
  CHECK(hardware.cut_by_port == 0);
  // The kernel puts CWR on the first segment: right but for AccECN.
  const Sent gso = send(flow, t, kernel());
  check_equal(gso, software);
  const bool everywhere = flow.syn_flags == (AE | CWR | ECE);
  CHECK(gso.cut_by_port == ((mark & CWR) != 0 && everywhere ? 0 : 1));
}

TEST_CASE("Offloads: what exceeds a NIC's limits is split in software", "[tso]") {
  Flow flow;
  const Tcp plain = flow.out(0, 8000);
  struct Row {
    const char* what;
    pxio::Segmenting port;
    std::vector<uint32_t> cuts;
    bool by_port;
  };
  const std::vector<uint32_t> eight{66, 1000, 2000, 3000, 4000, 5000, 6000};  // eight buffers
  std::vector<uint32_t> crumbs;
  for (uint32_t at = 100; at < 1300; at += 100) crumbs.push_back(at);
  for (const Row& r : {Row{"as many buffers", {.able = true, .max_buffers = 8}, eight, true},
                       Row{"too many buffers", {.able = true, .max_buffers = 7}, eight, false},
                       Row{"segments of 3 buffers and a header", {.able = true, .max_buffers_per_segment = 4}, eight, true},
                       Row{"segments of too many buffers", {.able = true, .max_buffers_per_segment = 3}, eight, false},
                       Row{"crumbs in one segment", {.able = true, .max_buffers_per_segment = 8}, crumbs, false},
                       Row{"segments too small", {.able = true, .min_size = 1449}, {}, false},
                       Row{"segments too large", {.able = true, .max_size = 1447}, {}, false},
                       Row{"segments just right", {.able = true, .min_size = 1448, .max_size = 1448}, {}, true},
                       Row{"too long", {.able = true, .max_bytes = 8051}, {}, false},
                       Row{"not too long", {.able = true, .max_bytes = 8052}, {}, true}}) {
    INFO(r.what);
    Tcp t = plain;
    t.cut(r.cuts);
    const Sent software = send(flow, t, {}), hardware = send(flow, t, r.port);
    check_equal(hardware, software);
    CHECK(hardware.cut_by_port == (r.by_port ? 1 : 0));
  }
}

TEST_CASE("Bounded: the most segments a packet may become hold for ports that cut, too", "[tso]") {
  pxgw::Policy policy;
  policy.max_split_segs = 8;
  Flow flow;
  flow.outside_mss = 536;
  Bed bed(policy, small_capacity(), nullptr, nic());
  bed.open(flow);
  bed.out({flow.out(0, 8000)});
  CHECK(bed.outside().empty());
  CHECK(bed.count().drop_split_segments == 1);
}

TEST_CASE("Untouched: padding behind a jumbo doesn't become payload of the last segment", "[tso]") {
  Flow flow;
  const Tcp t = flow.out(0, 5000).pad_to(5200);
  check_equal(send(flow, t, nic()), send(flow, t, {}));
}

TEST_CASE("Offloads: merged packets without a segment size are taken for what their flow sends", "[lro]") {
  Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  const bool seen = GENERATE(true, false);  // single segments before
  uint32_t at = 0;
  const size_t segment = seen ? 1200u : flow.full();
  if (seen) {
    for (int i = 0; i < 20; ++i, at += 1200) bed.in({flow.in(at, 1200)});
    bed.advance(std::chrono::milliseconds(1));
    bed.forget();
  }
  bed.in({flow.in(at, 20 * segment).rx(RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD, 0).cut(
      {2000, 4000, 6000, 8000, 10000, 12000, 14000, 16000, 18000, 20000, 22000, 24000, 26000, 28000})});
  bed.advance(std::chrono::milliseconds(1));
  const auto out = bed.inside();
  INFO(text_of(out));
  CHECK(same(payload_of(out), stream_of(flow.in(at), 20 * segment)));
  for (const Decoded& d : out) {
    CHECK(d.ip_len <= 9000);
    if (&d != &out.back()) CHECK(d.payload.size() % segment == 0);
  }
}
