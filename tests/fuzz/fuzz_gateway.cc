// SPDX-License-Identifier: BSD-3-Clause
// Any sequence of frames, raw or made of segments that nearly fit flows that are open, from both sides,
// in bursts, with time passing; with and without caravans, whose datagrams, hellos and damage come too.
#include "caravan/core/caravan.h"
#include "caravan/core/hello.h"
#include "pxgw/dp/caravan_stage.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/with_dpdk.h"
#include "tests/support/bed.h"

using namespace test;
using pxio::Direction;

namespace {

// A segment of the flow, as odd as the input wants it.
Tcp segment(FuzzInput& in, const Flow& flow, Direction d, uint32_t (&next)[2]) {
  const uint8_t odd = in.u8();
  const uint16_t len = static_cast<uint16_t>((odd & 1) != 0 ? flow.full() : in.u16() % 9200);
  uint32_t& at = next[pxio::index(d)];
  uint32_t offset = at;
  if ((odd & 2) != 0) {
    offset += static_cast<uint32_t>(static_cast<int16_t>(in.u16()));
  } else {
    at += len;
  }
  Tcp t = d == Direction::kInbound ? flow.in(offset, len) : flow.out(offset, len);
  if ((odd & 4) != 0) t.flags(in.u16() & 0xfff);
  if ((odd & 8) != 0) t.options(in.bytes(in.u8() % 41));
  if ((odd & 16) != 0) t.ack(t.ack_no + in.u16()).tos(in.u8()).ttl(in.u8());
  if ((odd & 32) != 0) t.cut({in.u8(), in.u16(), in.u16()}).pad_to(in.u8());
  if ((odd & 64) != 0) {
    const uint8_t more = in.u8();
    if ((more & 1) != 0) t.damage(in.u16());
    if ((more & 2) != 0) t.data_offset(in.u8() & 15);
    if ((more & 4) != 0) t.lower.frag_offset = in.u16() & 0x1fff;
    if ((more & 8) != 0) t.lower.mf = true;
    if ((more & 16) != 0) t.lower.df = false;
    if ((more & 32) != 0) t.lower.ip_options = Bytes(4u * (in.u8() % 11), 1);
    if ((more & 64) != 0) t.rx(RTE_MBUF_F_RX_LRO, in.u16());
    if ((more & 128) != 0) t.rx(RTE_MBUF_F_RX_L4_CKSUM_BAD);
  }
  return t;
}

constexpr caravan::Secret kSecret{1, 2};

// A datagram between the flow's hosts, to the caravan port now and then: a caravan, one that is damaged, a
// hello, or anything.
Frame datagram(FuzzInput& in, const Flow& flow, Direction d) {
  Lower lower = (d == Direction::kInbound ? flow.in(0, 0) : flow.out(0, 0)).lower;
  const uint8_t odd = in.u8();
  if ((odd & 1) != 0) lower.tos = in.u8();
  if ((odd & 2) != 0) {
    // Of few datagrams, so that some become whole.
    const uint16_t at = in.u8(), id = in.u8() & 3, where = static_cast<uint16_t>(at << 3 | (odd >> 6 & 1));
    lower.df = false;
    lower.id = id;
    if (lower.version == 4) {
      lower.mf = (odd & 64) != 0;
      lower.frag_offset = at;
    } else {
      lower.extensions.push_back({44, {0, 0, static_cast<uint8_t>(where >> 8), static_cast<uint8_t>(where), 0, 0, 0,
                                       static_cast<uint8_t>(id)}});
    }
  } else {
    lower.id = in.u16();
  }
  Bytes payload;
  uint16_t port = 6000;
  switch (odd >> 2 & 3) {
    case 0:
      payload = Bytes(in.u16() % 1473, in.u8());
      break;
    case 1:
      payload = in.bytes(in.u8());
      port = 7475;
      break;
    case 2: {
      port = 7475;
      payload.resize(caravan::kHelloBytes);
      caravan::Hello h{};
      h.size = in.u16();
      h.lifetime_ms = in.u16();
      caravan::encode(h, std::span<uint8_t, caravan::kHelloBytes>(payload));
      break;
    }
    default: {
      port = 7475;
      std::vector<Bytes> frames;
      std::vector<caravan::UdpPacket> packets(1u + in.u8() % 6);
      for (caravan::UdpPacket& p : packets) {
        const Frame f = udp(lower, 1000, 2000, in.u16() % 1400);
        frames.push_back(f.bytes);
        const Bytes& b = frames.back();
        if (!caravan::parse_udp({b.data() + 14, b.size() - 14}, p)) return f;
      }
      Bytes out(9100, 0);
      const size_t n = caravan::bundle_packet(packets, port, out);
      Frame f{Bytes(frames[0].begin(), frames[0].begin() + 14)};
      f.bytes.insert(f.bytes.end(), out.begin(), out.begin() + static_cast<long>(n));
      if ((odd & 16) != 0 && n != 0) f.bytes[14 + in.u16() % n] ^= in.u8();
      if ((odd & 32) != 0) f.cuts = {in.u16(), 2000, 4000};
      return f;
    }
  }
  Frame f = udp(lower, in.u8(), port, payload);
  if ((odd & 16) != 0) f.ol_flags = in.u8() % 2 != 0 ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : RTE_MBUF_F_RX_L4_CKSUM_BAD;
  return f;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  const uint8_t how = in.u8();
  pxgw::Policy policy;
  if ((how & 1) != 0) policy.hold_limit = std::chrono::microseconds(0);
  if ((how & 2) != 0) policy.max_merge_segs = 3;
  pxgw::Capacity capacity = small_capacity();
  if ((how & 4) != 0) capacity.flows = capacity.held = 1;
  const bool caravans = (how & 64) != 0;
  if (caravans) policy.caravans.mode = (how & 128) != 0 ? pxgw::Caravans::Mode::kObserve : pxgw::Caravans::Mode::kOn;
  policy.caravans.reassemble = true;
  policy.caravans.spacing = std::chrono::microseconds(how & 3);
  pxgw::CaravanHosts hosts(4, kSecret, 77);
  Bed bed(policy, capacity);
  if (caravans)
    bed.gateway().add_stage([&](const auto& c) {
      return std::make_unique<pxgw::CaravanStage>(c, hosts, pxgw::CaravanStage::Ports{64, static_cast<uint16_t>(1 + how % 3)});
    });
  std::vector<Flow> flows = {Flow({4, 0, true}, 1), Flow({6, 1, true}, 2), Flow({4, 2, false}, 3)};
  uint32_t next[3][2] = {};
  for (const Flow& f : flows) {
    const Lower l = f.in(0, 0).lower;
    caravan::Host h{{l.version == 4 ? caravan::Family::kIpv4 : caravan::Family::kIpv6, {}}, 9000, caravan::Time::max()};
    std::copy_n(l.dst.begin(), l.version == 4 ? 4 : 16, h.address.bytes.begin());
    fuzz_check(!caravans || hosts.table.set(h, bed.now()), "room for the hosts");
  }
  if ((how & 8) != 0) flows[0].outside_mss = in.u16();
  if ((how & 16) != 0) flows[0].inside_mss = in.u16();
  if ((how & 32) == 0)
    for (const Flow& f : flows) bed.open(f);
  Direction dir = Direction::kInbound;
  std::vector<Frame> burst;
  size_t frames = 0;
  const auto flush = [&] {
    bed.process(dir, burst);
    burst.clear();
  };
  while (!in.empty() && ++frames < 200) {
    const uint8_t op = in.u8();
    const Direction d = (op & 1) != 0 ? Direction::kOutbound : Direction::kInbound;
    if (d != dir || (op & 2) != 0) flush();
    dir = d;
    const auto n = static_cast<size_t>(op >> 4) % flows.size();
    switch (op >> 2 & 3) {
      case 0: {
        if (caravans && op >> 4 != 0) {
          burst.push_back(datagram(in, flows[n], d));
          break;
        }
        Frame f;
        f.bytes = in.bytes(in.u16() % 9600 + 1u);
        if (!f.bytes.empty()) burst.push_back(f);
        break;
      }
      case 1:
      case 2:
        burst.push_back(segment(in, flows[n], d, next[n]));
        break;
      default:
        flush();
        if (op >> 4 == 15) bed.housekeeping();
        if (op >> 4 == 14) bed.open(flows[n]);
        if (op >> 4 == 13) bed.drain();
        bed.advance(std::chrono::nanoseconds(in.u32() % 200000));
    }
  }
  flush();
  bed.advance(std::chrono::milliseconds(1));
  const struct {
    std::vector<Decoded> out;
    size_t mtu;
  } sides[] = {{bed.inside(), policy.inside_mtu}, {bed.outside(), policy.outside_mtu}};
  for (const auto& side : sides)
    for (const Decoded& d : side.out)
      fuzz_check(d.ip_len <= side.mtu || d.version == 0 || (d.segsz != 0 && d.l3_len + 20 + d.segsz <= side.mtu),
                 "larger than the MTU: " + d.text());
  const std::string wrong = bed.check_balance();
  fuzz_check(wrong.empty(), wrong);
  return 0;
}
