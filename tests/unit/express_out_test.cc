// SPDX-License-Identifier: BSD-3-Clause
// The short way of packets from inside does what the long one does. Where sides follow from
// prefixes, all take the long one.
#include <cstring>
#include <random>

#include "pxgw/dp/mailbox.h"
#include "tests/support/checks.h"

using namespace test;

namespace {

pxgw::Policy policy(pxgw::Sides sides) {
  pxgw::Policy p;
  p.sides = sides;
  p.include = {{4, 8, {10}}, {6, 16, {0xfd}}};
  p.flow_timeout = std::chrono::seconds(20);
  p.probing.probe = true;
  p.probing.elephant_bytes = 100'000;
  return p;
}

struct Stream {
  Flow flow;
  uint32_t sent = 0, acked = 0;  // bytes from inside
};

// Mostly the next segment or an acknowledgement; else something that comes again, is damaged or
// looks odd.
Frame some_packet(Stream& s, std::mt19937& rnd) {
  const auto any = [&rnd](uint32_t below) { return static_cast<uint32_t>(rnd() % below); };
  const uint16_t full = s.flow.full();
  constexpr std::array<uint16_t, 6> kFlags{PSH, ECE, CWR, AE, FIN, URG};
  const std::array<size_t, 8> sizes{
      0, 0, 1, full, full + size_t{1}, size_t{2} * full, s.flow.jumbo(), any(9000)};
  const size_t n = std::min<size_t>(sizes[any(8)], s.flow.jumbo());
  const bool again = any(6) == 0;
  const uint32_t at = !again        ? s.sent
                      : any(2) == 0 ? s.acked
                                    : s.sent - std::min(s.sent, any(20000));
  if (!again) s.sent += static_cast<uint32_t>(n);
  Tcp t = s.flow.out(at, n)
              .ack(5001 + any(3))
              .window(static_cast<uint16_t>(rnd()))
              .id(static_cast<uint16_t>(rnd()));
  if (any(6) == 0) t.add_flags(kFlags[any(kFlags.size())]);
  if (any(40) == 0) t.flags(RST | ACK);
  if (any(8) == 0) t.df(false);
  if (any(8) == 0) t.tos(static_cast<uint8_t>(any(4)));
  if (any(12) == 0) t.option({1, 1, 1, 1});
  if (any(30) == 0) t.damage();
  if (any(30) == 0) t.lower.mf = true;
  if (n < 20 && any(2) == 0) t.pad_to(60 + 14 + any(10));
  if (n > 200 && any(3) == 0)
    t.cut({static_cast<uint32_t>(100 + any(60)), static_cast<uint32_t>(180 + any(20))});
  constexpr std::array<uint64_t, 4> kVerdicts{
      RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN, RTE_MBUF_F_RX_L4_CKSUM_GOOD, RTE_MBUF_F_RX_L4_CKSUM_GOOD,
      RTE_MBUF_F_RX_L4_CKSUM_BAD};
  Frame f = t.rx(kVerdicts[any(kVerdicts.size())]);
  if (any(40) == 0) f.bytes.resize(f.bytes.size() - 1 - any(10)), f.cuts.clear();
  // Not in the addresses: sides would follow from them.
  const uint32_t l2 = 14 + 4 * static_cast<uint32_t>(s.flow.shape.tags);
  if (any(20) == 0) {
    const uint32_t byte = l2 + (any(2) == 0 ? any(8) : s.flow.ip_len() + any(20));
    f.bytes[byte] ^= static_cast<uint8_t>(1u << any(8));
  }
  return f;
}

// What the outside end says: how far it has got, or that it takes no more than so much.
Frame some_answer(Stream& s, std::mt19937& rnd) {
  s.acked += static_cast<uint32_t>(rnd() % (s.sent - s.acked + 1));
  return s.flow.in(0, 0).ack(1001 + s.acked);
}

}  // namespace

TEST_CASE(
    "Untouched, split: what leaves from inside is the same on the short way and on the long one",
    "[express]") {
  const pxio::Segmenting cuts =
      GENERATE(pxio::Segmenting{}, pxio::Segmenting{.able = true},
               pxio::Segmenting{.able = true, .knows_cwr = true, .max_buffers = 2});
  const bool ethernet_mtu = GENERATE(true, false);
  std::mt19937 rnd(cuts.able + 2u * cuts.knows_cwr + 4u * ethernet_mtu);
  pxgw::Policy short_policy = policy(pxgw::Sides::kByPort),
               long_policy = policy(pxgw::Sides::kByPrefix);
  if (!ethernet_mtu)
    short_policy.outside_mtu = long_policy.outside_mtu = 9000,
    short_policy.assumed_mtu = long_policy.assumed_mtu = 1500;
  pxgw::Capacity capacity = small_capacity();
  capacity.pmtu = capacity.handshakes = 4096;  // their places are random: none may be short
  Bed shorter(short_policy, capacity, nullptr, cuts), longer(long_policy, capacity, nullptr, cuts);
  pxgw::Mailbox short_box(4096, 4096), long_box(4096, 4096);
  shorter.gateway().connect(short_box, 0);
  longer.gateway().connect(long_box, 0);
  std::vector<Stream> streams;
  for (const Shape& shape : all_shapes()) {
    streams.push_back({Flow(shape, static_cast<uint16_t>(streams.size() + 1))});
    if (streams.size() % 4 == 0)
      streams.back().flow.syn_flags = ECE | CWR, streams.back().flow.syn_ack_flags = ECE;
  }
  uint64_t reports = 0, aged = 0;
  uint64_t bytes = 0;
  for (int round = 0; round < 1500; ++round) {
    if (round % 200 == 0) {
      for (size_t k = 0; k < streams.size(); ++k) {
        streams[k].sent = streams[k].acked = 0;
        for (Bed* bed : {&shorter, &longer})
          if (k % 5 != 4) bed->open(streams[k].flow);  // the handshake of the others isn't seen
      }
    }
    std::vector<Frame> burst;
    for (uint32_t n = static_cast<uint32_t>(rnd() % 33); n != 0; --n)
      burst.push_back(some_packet(streams[rnd() % streams.size()], rnd));
    const Frame answer = some_answer(streams[rnd() % streams.size()], rnd);
    for (Bed* bed : {&shorter, &longer}) {
      bed->out(burst);
      bed->in({answer});
      bed->flush_tx();
      bed->advance(std::chrono::microseconds(20 + round % 7 * 300));
      if (round % 25 != 24) continue;
      bed->advance(std::chrono::seconds(12));  // closed flows age, others don't yet
      bed->housekeeping(100);                  // all flows: their order in a table is random
    }
    for (pxgw::Report a, b; short_box.take(a); ++reports) {
      REQUIRE(long_box.take(b));
      REQUIRE(a.kind == b.kind);
      REQUIRE(a.to == b.to);
      REQUIRE(a.at == b.at);
    }
    for (const bool inside : {false, true}) {
      const std::vector<Decoded> a = inside ? shorter.inside() : shorter.outside();
      const std::vector<Decoded> b = inside ? longer.inside() : longer.outside();
      INFO("round " << round << (inside ? ", to the inside" : ", to the outside"));
      REQUIRE(a.size() == b.size());
      for (size_t i = 0; i < a.size(); ++i) {
        INFO(a[i].text() << " / " << b[i].text());
        REQUIRE(same(a[i].frame, b[i].frame));
        bytes += a[i].frame.size();
      }
    }
    // Every counter, that of each size too.
    const pxgw::Counters a = shorter.count(), b = longer.count();
    aged = a.engine.flow_aged;
    if (std::memcmp(&a, &b, sizeof a) != 0) {
      for (size_t i = 0; i < sizeof a / 8; ++i) {
        INFO("round " << round << ", counter " << i);
        REQUIRE(reinterpret_cast<const uint64_t*>(&a)[i] ==
                reinterpret_cast<const uint64_t*>(&b)[i]);
      }
    }
  }
  CHECK(bytes > 10'000'000);
  CHECK(reports > 10);
  CHECK(aged > 4);
  CHECK(shorter.outside_port().cut == longer.outside_port().cut);
  CHECK((shorter.outside_port().cut > 1000) == cuts.able);
}

TEST_CASE("Untouched: a flow stays known for as long as its inside host sends", "[express]") {
  const size_t payload = GENERATE(size_t{0}, size_t{1000}, size_t{8000});
  Bed bed(policy(pxgw::Sides::kByPort), small_capacity(), nullptr, {.able = true});
  const Flow flow;
  bed.open(flow);
  for (uint32_t i = 0; i < 5; ++i) {
    bed.out({Tcp(flow.out(i * static_cast<uint32_t>(payload), payload))
                 .rx(RTE_MBUF_F_RX_L4_CKSUM_GOOD)});
    bed.advance(std::chrono::seconds(12));
    bed.housekeeping(100);
    CHECK(bed.count().flows == 1);
  }
  bed.advance(std::chrono::seconds(12));
  bed.housekeeping(100);
  CHECK(bed.count().flows == 0);
}

TEST_CASE("Split: IPv6 packets beyond 65535 B are the same on both ways", "[express]") {
  const size_t payload = GENERATE(size_t{65535 - 60}, size_t{65535 - 59}, size_t{65535 - 20});
  const pxio::Segmenting cuts{.able = true};
  std::vector<Decoded> sent[2];
  for (const bool short_way : {true, false}) {
    Bed bed(policy(short_way ? pxgw::Sides::kByPort : pxgw::Sides::kByPrefix), small_capacity(),
            nullptr, cuts);
    const Flow flow({6, 0, false});
    bed.open(flow);
    Tcp t = flow.out(0, payload);
    t.cut({9000, 18000, 27000, 36000, 45000, 54000, 63000}).rx(RTE_MBUF_F_RX_L4_CKSUM_GOOD);
    bed.out({t});
    sent[short_way] = bed.outside();
  }
  REQUIRE(sent[0].size() == sent[1].size());
  CHECK(sent[0].size() >= 45);
  for (size_t i = 0; i < sent[0].size(); ++i) CHECK(same(sent[0][i].frame, sent[1][i].frame));
}
