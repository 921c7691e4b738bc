// SPDX-License-Identifier: BSD-3-Clause
// Recognising eight segments at a time says what recognising each by itself does.
#include "pxio/dp/plain_lanes.h"

#include <random>

#include "pxio/dp/merge_plain.h"
#include "tests/support/checks.h"
#include "tests/support/eal.h"

using namespace test;
using pxio::PlainFields;
using pxio::PlainSegment;

namespace {

// An IPv4 header that its checksum has nothing against.
void change_header(Bytes& bytes, uint32_t what) {
  uint8_t* ip = &bytes[14];
  if (bytes[12] != 8 || bytes[13] != 0) return;
  const auto lengthen = [ip](int by) {
    const int n = (ip[2] << 8 | ip[3]) + by;
    ip[2] = static_cast<uint8_t>(n >> 8);
    ip[3] = static_cast<uint8_t>(n);
  };
  switch (what) {
    case 0: ip[6] |= 0x20; break;  // more fragments
    case 1: ip[7] = 1; break;      // offset
    case 2: ip[6] |= 0x10; break;
    case 3: ip[6] |= 0x80; break;  // reserved
    case 4: ip[9] = 17; break;
    case 5: ip[0] = 0x46; break;
    case 6: ip[0] = 0x65; break;
    case 7: lengthen(1); break;
    case 8: lengthen(-1); break;
    default: lengthen(-8);
  }
  ip[10] = ip[11] = 0;
  const uint16_t sum = internet_checksum(word_sum(ip, (ip[0] & 15u) * 4));
  ip[10] = static_cast<uint8_t>(sum >> 8);
  ip[11] = static_cast<uint8_t>(sum);
}

// Mostly what belongs into a lane, else something close to it.
Frame some_frame(std::mt19937& rnd) {
  const auto any = [&rnd](uint32_t below) { return static_cast<uint32_t>(rnd() % below); };
  Tcp t = any(8) == 0 ? tcp6() : tcp4();
  t.sport = static_cast<uint16_t>(rnd());
  t.dport = static_cast<uint16_t>(rnd());
  t.seq(rnd()).ack(rnd()).window(static_cast<uint16_t>(rnd())).id(static_cast<uint16_t>(rnd()));
  t.tos(static_cast<uint8_t>(rnd())).ttl(static_cast<uint8_t>(rnd())).df(any(4) != 0);
  if (any(8) != 0) t.ts(rnd(), rnd());
  if (any(16) == 0) t.vlan(static_cast<uint16_t>(any(4096)));
  t.data(any(4) == 0 ? any(60) + 1 : 1000 + any(448));
  constexpr std::array<uint16_t, 6> kFlags{PSH, ECE, CWR, AE, FIN, URG};
  if (any(3) == 0) t.add_flags(kFlags[any(kFlags.size())]);
  if (any(16) == 0) t.pad_to(1600);
  if (any(16) == 0) t.cut({64});
  Frame f = t.build();
  constexpr std::array<uint64_t, 4> kVerdicts{
      RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN, RTE_MBUF_F_RX_L4_CKSUM_GOOD, RTE_MBUF_F_RX_L4_CKSUM_NONE,
      RTE_MBUF_F_RX_L4_CKSUM_BAD};
  f.ol_flags = any(4) == 0 ? kVerdicts[any(kVerdicts.size())] : 0;
  if (any(8) == 0) {
    f.ol_flags |= RTE_MBUF_F_RX_LRO;
    f.segsz = static_cast<uint16_t>(any(1500));
  }
  if (any(4) == 0) f.bytes[any(70) % f.bytes.size()] ^= static_cast<uint8_t>(1u << any(8));
  if (any(4) == 0) change_header(f.bytes, any(10));
  return f;
}

}  // namespace

TEST_CASE("Lanes: the same segments are recognised, with the same fields, as one by one",
          "[lanes]") {
  NoLeak guard;
  const pxio::RecogniseLanes recognise = pxio::recognise_lanes();
  if (recognise == nullptr) {
    SUCCEED("this processor has no lanes: what is shipped to it recognises one by one");
    return;
  }
  std::mt19937 rnd(2026);
  uint32_t in_lanes = 0, merged = 0, others = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto n = static_cast<uint16_t>(rnd() % (pxio::kBurst + 1));
    std::vector<pxio::PktPtr> held;
    std::array<rte_mbuf*, pxio::kBurst> pkts{};
    for (uint16_t i = 0; i < n; ++i) {
      held.push_back(to_mbuf(some_frame(rnd), pools().buffers()));
      pkts[i] = held.back().get();
    }
    pxio::PlainLanes lanes;
    const pxio::InLanes in = recognise(pkts.data(), n, lanes);
    REQUIRE((in.plain & in.merged) == 0);
    if (n < 32) REQUIRE((in.plain | in.merged) >> n == 0);
    for (uint16_t i = 0; i < n; ++i) {
      rte_mbuf& m = *pkts[i];
      const bool lro = (m.ol_flags & RTE_MBUF_F_RX_LRO) != 0;
      // What the port has merged is seen by itself as if it hadn't.
      const uint16_t segs = m.nb_segs;
      if (lro) m.ol_flags &= ~RTE_MBUF_F_RX_LRO, m.nb_segs = 1;
      PlainSegment s;
      const bool plain =
          pxio::recognise_inbound(m, s) && s.l2_len == 14 && s.l3_len == 20 && s.l4_len == 32;
      if (lro) m.ol_flags |= RTE_MBUF_F_RX_LRO, m.nb_segs = segs;
      REQUIRE(((in.plain >> i & 1) != 0) == (plain && !lro));
      REQUIRE(((in.merged >> i & 1) != 0) == (plain && lro));
      in_lanes += plain && !lro;
      merged += plain && lro;
      others += !plain;
      if (!plain) continue;
      const PlainFields want = pxio::fields_of<false, true>(s);
      const pxio::LaneFields got(lanes, i);
      REQUIRE(lanes.frame[i] == s.p);
      if (!lro) REQUIRE(((in.alike >> i & 1) != 0) == (want.ip_len() == lanes.ip_len[0]));
      REQUIRE(got.same() == want.same());
      REQUIRE(got.seq() == want.seq());
      REQUIRE(got.ack() == want.ack());
      REQUIRE(got.tsval() == want.tsval());
      REQUIRE(got.tsecr() == want.tsecr());
      REQUIRE(pxio::fold(got.sum()) == pxio::fold(want.sum()));
      REQUIRE(got.window() == want.window());
      REQUIRE(got.ip_len() == want.ip_len());
      REQUIRE(got.payload_len() == want.payload_len());
      REQUIRE(got.push() == want.push());
      REQUIRE(s.key.addr[0] == lanes.addr[i]);
      REQUIRE(s.key.ports == lanes.ports[i]);
    }
  }
  CHECK(in_lanes > 10000);
  CHECK(merged > 1000);
  CHECK(others > 1000);
}

TEST_CASE("Lanes: a segment follows where it may be merged with the one before it", "[lanes]") {
  NoLeak guard;
  const pxio::RecogniseLanes recognise = pxio::recognise_lanes();
  if (recognise == nullptr) {
    SUCCEED("this processor has no lanes");
    return;
  }
  std::mt19937 rnd(7);
  const auto any = [&rnd](uint32_t below) { return static_cast<uint32_t>(rnd() % below); };
  std::array<std::array<uint32_t, 2>, 14> seen{};  // of each change: how often it was, and how often it followed
  for (int round = 0; round < 3000; ++round) {
    const auto n = static_cast<uint16_t>(any(pxio::kBurst + 1));
    std::vector<pxio::PktPtr> held;
    std::array<rte_mbuf*, pxio::kBurst> pkts{};
    std::array<uint32_t, pxio::kBurst> change{};
    uint32_t seq = rnd(), ack = rnd(), tsval = rnd(), tsecr = rnd(), len = 1 + any(1400);
    uint16_t port = 7;
    uint8_t tos = 0;
    for (uint16_t i = 0; i < n; ++i) {
      const uint32_t c = change[i] = any(3) == 0 ? any(seen.size()) : 0;
      if (c == 1) ack += any(5000), tsval += any(3), tsecr += any(3);  // this and 0 only go on
      if (c == 2) --ack;
      if (c == 3) --tsval;
      if (c == 4) --tsecr;
      if (c == 5) seq += 1 + any(2) * 0xfffffffe;
      if (c == 6) ++len;
      if (c == 7) ++port;
      if (c == 8) tos ^= 2;
      Tcp t = tcp4();
      t.sport = port;
      t.seq(seq).ack(ack).ts(tsval, tsecr).tos(tos).id(static_cast<uint16_t>(rnd())).data(len);
      if (c == 9) t.add_flags(PSH);
      if (c == 10) t.add_flags(ECE);
      if (c == 11) t.ttl(3);
      if (c == 12) t.cut({64});
      Frame f = t.build();
      if (c == 13) f.ol_flags |= RTE_MBUF_F_RX_LRO, f.segsz = 100;
      seq += len;
      held.push_back(to_mbuf(f, pools().buffers()));
      pkts[i] = held.back().get();
    }
    pxio::PlainLanes lanes;
    const pxio::InLanes in = recognise(pkts.data(), n, lanes);
    // Those that change the next one, too: what it follows is another.
    constexpr uint32_t kOnce = 1u << 9 | 1u << 10 | 1u << 11 | 1u << 12 | 1u << 13;
    for (uint16_t i = 0; i < n; ++i) {
      const bool follows = (in.follows >> i & 1) != 0;
      const bool after_once = i > 0 && (kOnce >> change[i - 1] & 1) != 0;
      const bool both_plain = i > 0 && (in.plain >> (i - 1) & 3) == 3;
      const bool alike = i > 0 && change[i] == change[i - 1] && (change[i] == 10 || change[i] == 11);
      const bool want = both_plain && ((change[i] <= 1 && !after_once) || alike);
      INFO("round " << round << ", lane " << i << " of " << n << ", change " << change[i]);
      REQUIRE(follows == want);
      ++seen[change[i]][follows];
    }
    if (n < 32) REQUIRE(in.follows >> n == 0);
  }
  CHECK(seen[0][1] > 10000);
  CHECK(seen[1][1] > 100);
  for (const auto& s : seen) CHECK(s[0] > 100);
}
