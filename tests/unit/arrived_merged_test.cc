// SPDX-License-Identifier: BSD-3-Clause
// Packets that a NIC or kernel has already merged: cut again where they are too large for their
// receiver, merged on where they aren't.
#include "tests/support/checks.h"

using namespace test;

namespace {

Tcp lro(const Flow& flow, uint32_t at, size_t segs, uint16_t segsz) {
  std::vector<uint32_t> cuts;  // a packet's buffers
  for (uint32_t c = 1400; c < segs * flow.full(); c += 1500) cuts.push_back(c);
  return flow.in(at, segs * flow.full()).cut(cuts).rx(RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD, segsz);
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

namespace {

// Segments of one size that came merged by `counts`, numbered by their IPv4 ID.
std::vector<Frame> arrive(const Flow& flow, uint16_t segment, const std::vector<size_t>& counts, uint64_t state) {
  std::vector<Frame> frames;
  uint32_t at = 0;
  for (const size_t n : counts) {
    Tcp t = flow.in(at * segment, n * segment).rx(state | (n > 1 ? RTE_MBUF_F_RX_LRO : 0), n > 1 ? segment : uint16_t{0});
    std::vector<uint32_t> cuts;
    for (uint32_t c = 300; c < n * segment; c += 2000) cuts.push_back(c);
    frames.push_back(t.id(static_cast<uint16_t>(0xfff8 + at)).cut(cuts));
    at += static_cast<uint32_t>(n);
  }
  return frames;
}

}  // namespace

TEST_CASE("Yield: what comes merged in any sizes leaves in full packets", "[lro]") {
  const Flow flow({GENERATE(4, 6), GENERATE(0, 2), GENERATE(true, false)});
  const auto segment = static_cast<uint16_t>(flow.full() - GENERATE(0, 1));  // of an odd length too
  const uint64_t state = GENERATE(uint64_t{0}, uint64_t{RTE_MBUF_F_RX_L4_CKSUM_GOOD});
  const auto counts = GENERATE(std::vector<size_t>{4, 4, 4, 4, 4, 4, 4, 4, 4}, std::vector<size_t>{1, 1, 3, 5, 2},
                               std::vector<size_t>{20, 3, 1, 40, 8}, std::vector<size_t>{5, 44, 11},
                               std::vector<size_t>{6, 12, 2, 4, 5, 6, 1});
  CAPTURE(counts, segment);
  Bed bed;
  bed.open(flow);
  bed.in(arrive(flow, segment, counts, state));
  const auto out = bed.inside();
  INFO(text_of(out));
  size_t all = 0;
  for (const size_t n : counts) all += n;
  CHECK(same(payload_of(out), stream_of(flow.in(), all * segment)));
  CHECK(out.size() == all / 6);
  for (size_t i = 0; i < out.size(); ++i) {
    const Decoded& d = out[i];
    CHECK(d.payload.size() == 6u * segment);
    CHECK(d.checksum_ok);
    CHECK(d.ip_ok);
    CHECK(d.trailer == 0);
    if (flow.v4() && i != 0) CHECK(static_cast<uint16_t>(d.id - out[i - 1].id - 1) < 36);  // those of no other segment
    CHECK(d.tags.size() == static_cast<size_t>(flow.shape.tags));
    CHECK(d.flags == ACK);
  }
  CHECK(bed.count().engine.merge_bulk_in == all);
  CHECK(bed.count().engine.merge_bulk_full == all);
  CHECK(bed.count().engine.merge_bulk_jumbo == all);
  CHECK(bed.count().merge_recut == bed.count().engine.split_in_pkts);  // nothing is said to be an outbound jumbo
}

TEST_CASE("Headers: PSH and FIN stay with the last of the segments that came merged", "[lro]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  const auto end = static_cast<uint16_t>(ACK | GENERATE(int{PSH}, int{FIN}, PSH | FIN));
  const auto counts = GENERATE(std::vector<size_t>{4, 4}, std::vector<size_t>{2, 20}, std::vector<size_t>{4, 2},
                               std::vector<size_t>{0, 9});
  Bed bed;
  bed.open(flow);
  const size_t all = counts[0] + counts[1];
  std::vector<Frame> frames;
  if (counts[0] != 0) frames.push_back(lro(flow, 0, counts[0], flow.full()));
  frames.push_back(lro(flow, static_cast<uint32_t>(counts[0]) * flow.full(), counts[1], flow.full()).flags(end));
  bed.in(frames);
  const auto out = bed.inside();
  INFO(text_of(out));
  CAPTURE(counts, end);
  CHECK(same(payload_of(out), stream_of(flow.in(), all * flow.full())));
  CHECK(out.size() == (all + 5) / 6);
  for (const Decoded& d : out) {
    CHECK(d.checksum_ok);
    CHECK(d.flags == (&d == &out.back() ? end : ACK));
  }
}

TEST_CASE("Headers: what came merged isn't mixed with what is held of other headers, options or CWR", "[lro]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  const int what = GENERATE(0, 1, 2);
  Bed bed;
  bed.open(flow);
  Tcp first = lro(flow, 0, 4, flow.full()), second = lro(flow, 4u * flow.full(), 4, flow.full());
  if (what == 0) second.tos(0x28);
  if (what == 1) second.ack(first.ack_no - 100);
  if (what == 2) second.add_flags(CWR);
  bed.in({first, second});
  bed.advance(std::chrono::milliseconds(1));
  const auto out = bed.inside();
  INFO(text_of(out));
  REQUIRE(out.size() == 2);
  check_merged(out[0], {first});
  check_merged(out[1], {second});
}

TEST_CASE("Checksums: what came merged and damaged isn't given a checksum that holds", "[lro]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  const size_t segs = GENERATE(size_t{4}, size_t{9});
  Bed bed;
  bed.open(flow);
  Tcp bad = flow.in(4u * flow.full(), segs * flow.full()).rx(RTE_MBUF_F_RX_LRO, flow.full());
  bad.cut({1514, 3000, 9000});
  Frame damaged = bad.build();
  damaged.bytes[damaged.bytes.size() - 700] ^= 1;
  bed.in({lro(flow, 0, 4, flow.full()), damaged});
  bed.advance(std::chrono::milliseconds(1));
  for (const Decoded& d : bed.inside()) CHECK(d.checksum_ok == (d.seq == flow.in().seq_no));
}

TEST_CASE("Bounded: what came merged goes on in order where buffers run out", "[lro]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  const size_t segs = GENERATE(size_t{4}, size_t{9}, size_t{20});
  const unsigned left = GENERATE(0u, 1u, 2u, 3u, 8u);
  pxio::BufferPools few(63, 31);
  std::vector<pxio::PktPtr> taken;
  Bed bed({}, small_capacity(), &few);
  bed.open(flow);
  bed.in({lro(flow, 0, 4, flow.full())});
  while (rte_mempool_avail_count(few.buffers().large) > left)
    taken.emplace_back(rte_pktmbuf_alloc(few.buffers().large));
  bed.in({lro(flow, 4u * flow.full(), segs, flow.full())});
  bed.advance(std::chrono::milliseconds(1));
  const auto out = bed.inside();
  INFO(text_of(out));
  const uint32_t begin = flow.in().seq_no;
  uint32_t next = begin;
  size_t got = 0;
  for (const Decoded& d : out) {
    CHECK(d.seq >= next);
    CHECK(same(d.payload, stream_of(flow.in(d.seq - begin), d.payload.size())));
    CHECK(d.checksum_ok);
    next = d.seq + static_cast<uint32_t>(d.payload.size());
    got += d.payload.size();
  }
  CHECK((got == (4 + segs) * flow.full() || bed.count().drop_no_buffer == 1));
  taken.clear();
}
