// SPDX-License-Identifier: BSD-3-Clause
// Damage on the way stays visible behind a merge or a split.
#include "tests/support/checks.h"

using namespace test;

namespace {

// One payload bit flips on the way, after the sender's checksum.
Frame flipped(const Tcp& t, size_t from_end = 17) {
  Frame f = t.build();
  f.bytes[f.bytes.size() - from_end] ^= 0x10;
  return f;
}

}  // namespace

TEST_CASE("Checksums: a damaged payload inside a merge still fails at the receiver", "[checksum]") {
  const int version = GENERATE(4, 6);
  const uint64_t verdict =
      GENERATE(uint64_t{RTE_MBUF_F_RX_L4_CKSUM_GOOD}, uint64_t{RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN},
               uint64_t{RTE_MBUF_F_RX_L4_CKSUM_NONE});
  const Flow flow({version, 0, true});
  Bed bed;
  bed.open(flow);
  std::vector<Frame> in = flow.run(0, 6);
  in[2] = flipped(flow.in(2u * flow.full(), flow.full()));
  for (Frame& f : in) f.ol_flags = verdict;
  const auto out = bed.merge(in);
  REQUIRE(out.size() == 1);
  CHECK(out[0].payload.size() == 6u * flow.full());
  CHECK(!out[0].checksum_ok);
}

TEST_CASE("Checksums: a wrong header checksum of one segment spoils the merge", "[checksum]") {
  const Flow flow({GENERATE(4, 6), 1, true});
  const uint32_t bad = GENERATE(0u, 1u, 4u);
  const uint16_t by = GENERATE(uint16_t{1}, uint16_t{0x0100}, uint16_t{0xfffe}, uint16_t{0x8000});
  Bed bed;
  bed.open(flow);
  std::vector<Frame> in;
  for (uint32_t i = 0; i < 5; ++i) {
    Tcp t = flow.in(i * 999, 999);  // odd, so that every other one is swapped
    if (i == bad) t.damage(by);
    in.push_back(t);
  }
  const auto out = bed.merge(in);
  REQUIRE(out.size() == 1);
  CHECK(!out[0].checksum_ok);
}

TEST_CASE("Checksums: a segment known as damaged flushes, passes unchanged and is never repaired",
          "[checksum]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  const uint32_t f = flow.full();
  Bed bed;
  bed.open(flow);
  std::vector<Frame> in = flow.run(0, 6);
  in[2] = flipped(flow.in(2 * f, f));
  for (Frame& x : in) x.ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  in[2].ol_flags = RTE_MBUF_F_RX_L4_CKSUM_BAD;
  const auto out = bed.merge(in);
  INFO(text_of(out));
  REQUIRE(out.size() >= 3);
  check_merged(out[0], {flow.in(0, f), flow.in(f, f)});
  check_untouched({out[1]}, {in[2]});
  for (size_t i = 2; i < out.size(); ++i) CHECK(out[i].checksum_ok);
  CHECK(bed.count().pass_tcp_bad_checksum == 1);
}

TEST_CASE("Checksums: a damaged jumbo too large to leave whole is dropped, never made good",
          "[checksum][split]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  SECTION("payload") { bed.out({flipped(flow.out(0, 8000), GENERATE(size_t{1}, size_t{1500}, size_t{7999}))}); }
  SECTION("checksum") { bed.out({flow.out(0, 8000).damage(GENERATE(uint16_t{1}, uint16_t{0xfffe}))}); }
  SECTION("chained") { bed.out({flow.out(0, 8000).damage().cut({100, 201, 5000})}); }
  CHECK(bed.outside().empty());
  CHECK(bed.count().drop_split_checksum == 1);
}

TEST_CASE("Checksums: a damaged segment that fits passes as it is", "[checksum][split]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  const std::vector<Frame> p = {flow.out(0, 1000).damage(), flow.out(1000, flow.full()).damage()};
  bed.out(p);
  check_untouched(bed.outside(), p);
}

TEST_CASE("Checksums: every byte pattern that sums to zero or all ones", "[checksum]") {
  // Ones' complement has two zeros; neither way of writing one may turn good into bad.
  const Flow flow({GENERATE(4, 6), 0, false});
  const uint8_t fill = GENERATE(uint8_t{0}, uint8_t{0xff});
  Bed bed;
  bed.open(flow);
  std::vector<Tcp> p;
  uint32_t at = 0;
  for (size_t len : {100u, 101u, 99u, 1000u, 3u}) {
    p.push_back(flow.in(at, 0).bytes(Bytes(len, fill)));
    at += static_cast<uint32_t>(len);
  }
  const auto out = bed.merge({p.begin(), p.end()});
  for (const Decoded& d : out) CHECK(d.checksum_ok);
  CHECK(same(payload_of(out), Bytes(at, fill)));
  bed.out({flow.out(0, 0).bytes(Bytes(8000, fill))});
  const auto pieces = bed.outside();
  CHECK(pieces.size() == 6);
  for (const Decoded& d : pieces) CHECK(d.checksum_ok);
}
