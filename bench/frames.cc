// SPDX-License-Identifier: BSD-3-Clause
#include "bench/frames.h"

#include <rte_mbuf_ptype.h>

#include <cstring>
#include <stdexcept>

#include "caravan/core/caravan.h"
#include "pxio/dp/checksum.h"
#include "pxio/dp/pkt.h"
#include "pxio/dp/wire.h"

namespace bench {

using namespace pxio;

Frames::Frames(uint32_t flows, Shape shape)
    : shape_(shape),
      header_len_(static_cast<uint16_t>(14 + (shape.version == 4 ? 20 : 40) + (shape.timestamps ? 32 : 20))),
      flows_(flows) {}

// Returns the headers' length.
uint16_t Frames::write(uint32_t f, Direction d, uint32_t seq, uint32_t ack, uint8_t flags, uint32_t payload,
                       uint16_t mss, uint8_t* p) const noexcept {
  const bool in = d == Direction::kInbound;
  const uint16_t options = static_cast<uint16_t>((mss != 0 ? 4 : 0) + (shape_.timestamps ? 12 : 0));
  const uint16_t l3 = shape_.version == 4 ? 20 : 40;
  const auto l4 = static_cast<uint16_t>(20 + options);
  static constexpr uint8_t kMacs[2][12] = {{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}};
  std::memcpy(p, kMacs[in ? 0 : 1], 12);
  const be16 type(shape_.version == 4 ? kEtherIpv4 : kEtherIpv6);
  std::memcpy(p + 12, &type, 2);
  const uint32_t inside = inside_host(f), outside = 0xc6120000u + f % 65521;
  const be16 inside_port(static_cast<uint16_t>(20000 + (f & 15))), outside_port(443);
  auto& tcp = *reinterpret_cast<TcpHeader*>(p + 14 + l3);
  uint64_t sum = 0;
  const uint32_t l4_len = l4 + payload;
  if (shape_.version == 4) {
    auto& ip = *reinterpret_cast<Ipv4Header*>(p + 14);
    ip = {};
    ip.version_ihl = 0x45;
    ip.total_len = be16(static_cast<uint16_t>(20 + l4_len));
    ip.frag = be16(kIpDf);
    ip.ttl = 60;
    ip.proto = kProtoTcp;
    ip.src = be32(in ? outside : inside);
    ip.dst = be32(in ? inside : outside);
    set_ipv4_checksum(ip);
    sum = pseudo_sum(ip, kProtoTcp, l4_len);
  } else {
    auto& ip = *reinterpret_cast<Ipv6Header*>(p + 14);
    ip = {};
    ip.version_class_flow = be32(0x60000000u | (f & 0xfffff));
    ip.payload_len = be16(static_cast<uint16_t>(l4_len));
    ip.next = kProtoTcp;
    ip.hop_limit = 60;
    const be32 a(in ? outside : inside), b(in ? inside : outside);
    ip.src[0] = ip.dst[0] = 0x20;
    ip.src[1] = ip.dst[1] = 0x01;
    std::memcpy(ip.src + 12, &a, 4);
    std::memcpy(ip.dst + 12, &b, 4);
    sum = pseudo_sum(ip, kProtoTcp, l4_len);
  }
  tcp.src_port = in ? outside_port : inside_port;
  tcp.dst_port = in ? inside_port : outside_port;
  tcp.seq = be32(seq);
  tcp.ack = be32(ack);
  tcp.off_flags = be16(static_cast<uint16_t>((l4 / 4) << 12 | flags));
  tcp.window = be16(512);
  tcp.checksum = tcp.urgent = be16(0);
  uint8_t* o = p + 14 + l3 + 20;
  if (mss != 0) {
    const uint8_t option[4] = {2, 4, static_cast<uint8_t>(mss >> 8), static_cast<uint8_t>(mss)};
    std::memcpy(o, option, 4);
    o += 4;
  }
  if (shape_.timestamps) {
    const uint8_t option[4] = {1, 1, 8, 10};
    const be32 tsval(flows_[f].tsval), tsecr(7);
    std::memcpy(o, option, 4);
    std::memcpy(o + 4, &tsval, 4);
    std::memcpy(o + 8, &tsecr, 4);
  }
  tcp.checksum = be16::from_raw(static_cast<uint16_t>(~fold(sum + sum_words(&tcp, l4))));
  return static_cast<uint16_t>(14 + l3 + l4);
}

void Frames::describe(rte_mbuf& m) const noexcept {
  m.ol_flags = 0;
  m.l2_len = 14;
  m.l3_len = shape_.version == 4 ? 20u : 40u;
  m.l4_len = shape_.timestamps ? 32u : 20u;
  m.tso_segsz = 0;
  m.packet_type = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L4_TCP | (shape_.version == 4 ? RTE_PTYPE_L3_IPV4 : RTE_PTYPE_L3_IPV6);
}

Direction Frames::handshake(uint32_t f, int step, rte_mbuf& m) const noexcept {
  const Direction d = step == 1 ? Direction::kOutbound : Direction::kInbound;
  const uint8_t flags = step == 0 ? kSyn : step == 1 ? kSyn | kAck : kAck;
  const auto base = static_cast<uint16_t>(shape_.version == 4 ? 40 : 60);
  const auto mss = static_cast<uint16_t>(step == 2 ? 0 : (d == Direction::kInbound ? 1500 : 9000) - base);
  const uint16_t len = write(f, d, step == 2 ? 1 : 0, step == 0 ? 0 : 1, flags, 0, mss, pxio::data(m));
  m.data_len = len;
  m.pkt_len = len;
  describe(m);
  return d;
}

void Frames::data(uint32_t f, Direction d, uint16_t payload, bool push, rte_mbuf& m) noexcept {
  Flow& flow = flows_[f];
  const bool in = d == Direction::kInbound;
  uint32_t& seq = in ? flow.in_seq : flow.out_seq;
  const auto flags = static_cast<uint8_t>(kAck | (push ? kPsh : 0));
  write(f, d, seq, in ? flow.out_seq : flow.in_seq, flags, payload, 0, pxio::data(m));
  seq += payload;
  m.data_len = static_cast<uint16_t>(header_len_ + payload);
  m.pkt_len = m.data_len;
  describe(m);
}

void Frames::data_chain(uint32_t f, Direction d, uint32_t payload, rte_mbuf& m) noexcept {
  Flow& flow = flows_[f];
  const bool in = d == Direction::kInbound;
  uint32_t& seq = in ? flow.in_seq : flow.out_seq;
  write(f, d, seq, in ? flow.out_seq : flow.in_seq, kAck, payload, 0, pxio::data(m));
  seq += payload;
  m.pkt_len = header_len_ + payload;
  uint32_t left = m.pkt_len;
  for (rte_mbuf* s = &m; s != nullptr; s = s->next) {
    s->data_len = static_cast<uint16_t>(std::min<uint32_t>(left, s->buf_len - s->data_off));
    left -= s->data_len;
  }
  describe(m);
}

// Returns the frame's length. Behind the UDP header stands what is left of a TCP header, then zeros.
uint16_t Frames::write_datagram(uint32_t f, Direction d, uint16_t payload, uint8_t* p) const noexcept {
  write(f, d, 0, 0, 0, 0, 0, p);
  const auto l4_len = static_cast<uint16_t>(8 + payload);
  const uint16_t l3 = shape_.version == 4 ? 20 : 40;
  auto& udp = *reinterpret_cast<UdpHeader*>(p + 14 + l3);
  udp.len = be16(l4_len);
  udp.checksum = be16(0);
  if (shape_.version == 4) {
    auto& ip = *reinterpret_cast<Ipv4Header*>(p + 14);
    ip.proto = kProtoUdp;
    ip.total_len = be16(static_cast<uint16_t>(20 + l4_len));
    set_ipv4_checksum(ip);
  } else {
    auto& ip = *reinterpret_cast<Ipv6Header*>(p + 14);
    ip.next = kProtoUdp;
    ip.payload_len = be16(l4_len);
    const uint64_t written = sum_words(&udp, header_len_ - 14u - l3);
    udp.checksum = be16::from_raw(static_cast<uint16_t>(~fold(pseudo_sum(ip, kProtoUdp, l4_len) + written)));
  }
  return static_cast<uint16_t>(14 + l3 + l4_len);
}

void Frames::datagram(uint32_t f, uint16_t payload, rte_mbuf& m) const noexcept {
  m.data_len = write_datagram(f, Direction::kInbound, payload, pxio::data(m));
  m.pkt_len = m.data_len;
  describe(m);
  if (shape_.version == 6) m.ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
}

void Frames::caravan(uint32_t f, uint32_t n, uint16_t payload, rte_mbuf& m) {
  std::vector<uint8_t> one(14u + 48u + payload);
  const uint16_t one_len = write_datagram(f, Direction::kOutbound, payload, one.data());
  caravan::UdpPacket packet;
  if (!caravan::parse_udp({one.data() + 14, one_len - 14u}, packet)) throw std::logic_error("no datagram");
  const std::vector<caravan::UdpPacket> packets(n, packet);
  uint8_t* p = pxio::data(m);
  std::memcpy(p, one.data(), 14);
  const size_t len = caravan::bundle_packet(packets, caravan::kDefaultPort, {p + 14, rte_pktmbuf_tailroom(&m) - 14u});
  if (len == 0) throw std::logic_error("no caravan");
  m.data_len = static_cast<uint16_t>(14 + len);
  m.pkt_len = m.data_len;
  describe(m);
}

void Frames::flood(rte_mbuf& m) noexcept {
  uint8_t* p = pxio::data(m);
  const uint16_t len = write(0, Direction::kInbound, flooded_, 0, kSyn, 0, 1460, p);
  auto& ip = *reinterpret_cast<Ipv4Header*>(p + 14);
  auto& tcp = *reinterpret_cast<TcpHeader*>(p + 34);
  // 2^32 of them before one comes again: a bijection of the count.
  ip.src = be32(++flooded_ * 0x9e3779b1u);
  set_ipv4_checksum(ip);
  tcp.checksum = be16(0);
  tcp.checksum = be16::from_raw(static_cast<uint16_t>(~fold(pseudo_sum(ip, kProtoTcp, len - 34u) + sum_words(&tcp, len - 34u))));
  m.data_len = len;
  m.pkt_len = len;
  describe(m);
}

}  // namespace bench
