// SPDX-License-Identifier: BSD-3-Clause
// Segments of bulk transfer as they mostly look, recognised without a full parse: Ethernet with up to two
// VLAN tags, IP without options or extension headers and not a fragment, TCP with no options or with
// timestamps alone (RFC 7323, appendix A), ACK set and no flag but PSH and the ECN ones. Inbound with payload
// in one buffer, and no padding; outbound, where nothing is merged, that may be otherwise. Everything else goes
// through parse(), with the same result for these. Worker threads.
#pragma once
#include <rte_mbuf.h>

#include <cstdint>
#include <cstring>

#include "pxio/dp/checksum.h"
#include "pxio/dp/flow_table.h"
#include "pxio/dp/pkt.h"
#include "pxio/dp/wire.h"

namespace pxio {

// NOP, NOP, kind 8, length 10, as they lie in memory.
inline constexpr uint32_t kTimestampWord = 0x0a080101;
inline constexpr uint8_t kTimestampOffset = 24;  // of TSval from the start of the TCP header

// No buffer with less in it is looked at: room for two tags and the longest headers on IPv4.
inline constexpr uint16_t kLeastPlain = 22 + 40 + 32;
// The same of outbound packets, before their headers' lengths are known.
inline constexpr uint16_t kLeastOutbound = 14 + 40;

struct PlainSegment {
  const uint8_t* p;
  FlowKey key;      // only addr[0] is set on IPv4
  uint16_t ip_len, payload_len;
  uint8_t l2_len, l3_len, l4_len;
};

// What is compared, summed and kept of a plain segment, in host order.
struct PlainFields {
  uint64_t same_;  // see same_of()
  uint32_t seq_, ack_, tsval_, tsecr_;
  uint32_t sum_;   // see header_sum()
  uint16_t window_;
  uint16_t ip_len_, payload_len_;
  bool push_;

  // As LaneFields has them.
  uint64_t same() const { return same_; }
  uint32_t seq() const { return seq_; }
  uint32_t ack() const { return ack_; }
  uint32_t tsval() const { return tsval_; }
  uint32_t tsecr() const { return tsecr_; }
  uint32_t sum() const { return sum_; }
  uint16_t window() const { return window_; }
  uint16_t ip_len() const { return ip_len_; }
  uint16_t payload_len() const { return payload_len_; }
  bool push() const { return push_; }
};

// Both halves of a word, as summands of a sum of 32-bit words.
inline uint64_t halves(uint64_t w) { return (w & 0xffffffff) + (w >> 32); }

// Sum of pseudo-header and TCP header, and so, with the checksum in it, the complement of the payload's.
// At most 18 bits long: many can be added before they are folded.
inline uint32_t header_sum(const uint8_t* ip, bool v6, uint32_t l3_len, uint32_t l4_len, uint32_t ip_len) {
  // Upper length and protocol of the pseudo-header, in the order of bytes on the wire.
  uint64_t sum = __builtin_bswap16(static_cast<uint16_t>(ip_len - l3_len)) + (uint64_t{kProtoTcp} << 8);
  if (v6) {
    for (int i = 8; i < 40; i += 8) sum += halves(load<uint64_t>(ip + i));
  } else {
    sum += halves(load<uint64_t>(ip + 12));
  }
  const uint8_t* tcp = ip + l3_len;
  sum += halves(load<uint64_t>(tcp)) + halves(load<uint64_t>(tcp + 8)) + load<uint32_t>(tcp + 16);
  for (uint32_t i = kTcpHeaderLen; i < l4_len; i += 4) sum += load<uint32_t>(tcp + i);
  return static_cast<uint32_t>((sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32));
}

// Fills `s`. False: not plain.
template <Direction kWay>
inline bool recognise(const rte_mbuf& m, PlainSegment& s) noexcept {
  constexpr bool kIn = kWay == Direction::kInbound;
  if ((m.ol_flags & RTE_MBUF_F_RX_LRO) != 0 || m.data_len < (kIn ? kLeastPlain : kLeastOutbound)) return false;
  if (kIn && m.nb_segs != 1) return false;
  if ((m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD) return false;
  const uint8_t* p = data(m);
  s.p = p;
  uint32_t l2 = sizeof(EthernetHeader);
  uint16_t type = load<uint16_t>(p + 12);
  constexpr auto raw = [](uint16_t t) { return static_cast<uint16_t>(t << 8 | t >> 8); };
  s.key.vlan = 0;
  if (type == raw(kEtherVlan) || type == raw(kEtherQinq) || type == raw(kEtherQinqOld)) [[unlikely]] {
    s.key.vlan = load<uint32_t>(p + 12) & kVlanKeyMask;
    type = load<uint16_t>(p + 16);
    l2 = 18;
    if (type == raw(kEtherVlan) || type == raw(kEtherQinq) || type == raw(kEtherQinqOld)) {
      s.key.vlan = load<uint64_t>(p + 12) & kVlanKeyMask;
      type = load<uint16_t>(p + 20);
      l2 = 22;
    }
  }
  const uint8_t* ip = p + l2;
  uint32_t l3, ip_len;
  if (type == raw(kEtherIpv4)) {
    l3 = kIpv4HeaderLen;
    if (!kIn && m.data_len < l2 + l3 + kTcpHeaderLen) return false;
    ip_len = load<be16>(ip + 2).host();
    const uint64_t second = load<uint64_t>(ip + 8);  // TTL, protocol, checksum, source
    // Version and header length; neither MF nor an offset; TCP.
    if (ip[0] != 0x45 || (load<uint16_t>(ip + 6) & raw(kIpMf | kIpOffsetMask)) != 0 ||
        (second >> 8 & 0xff) != kProtoTcp)
      return false;
    uint64_t sum = halves(load<uint64_t>(ip)) + halves(second) + load<uint32_t>(ip + 16);
    sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    if (((sum & 0xffff) + (sum >> 16)) != 0xffff) return false;
    const uint64_t src = second >> 32, dst = load<uint32_t>(ip + 16);
    s.key.addr[0] = kIn ? dst | src << 32 : src | dst << 32;
    s.key.version = 4;
  } else if (type == raw(kEtherIpv6)) {
    l3 = kIpv6HeaderLen;
    if (!kIn && m.data_len < l2 + l3 + kTcpHeaderLen) return false;
    ip_len = kIpv6HeaderLen + uint32_t{load<be16>(ip + 4).host()};
    if (ip[0] >> 4 != 6 || ip[6] != kProtoTcp) return false;
    std::memcpy(&s.key.addr[0], ip + (kIn ? 24 : 8), 16);
    std::memcpy(&s.key.addr[2], ip + (kIn ? 8 : 24), 16);
    s.key.version = 6;
  } else {
    return false;
  }
  const uint8_t* tcp = ip + l3;
  const uint32_t ports = load<uint32_t>(tcp);
  s.key.ports = kIn ? ports >> 16 | ports << 16 : ports;
  const uint16_t off_flags = load<uint16_t>(tcp + 12);
  constexpr uint16_t kMay = kPsh | kEce | kCwr | kAe;
  const auto rest = static_cast<uint16_t>(off_flags & ~raw(kMay));
  uint32_t l4;
  if (rest == raw(8u << 12 | kAck) && (kIn || m.data_len >= l2 + l3 + 32) &&
      load<uint32_t>(tcp + 20) == kTimestampWord) {
    l4 = 32;
  } else if (rest == raw(5u << 12 | kAck)) {
    l4 = kTcpHeaderLen;
  } else {
    return false;
  }
  const uint32_t headers = l3 + l4;
  if (kIn ? ip_len <= headers || m.pkt_len != l2 + ip_len : ip_len < headers || m.pkt_len < l2 + ip_len) return false;
  if (!kIn && ip_len > UINT16_MAX) return false;  // IPv6's length leaves its header out
  s.ip_len = static_cast<uint16_t>(ip_len);
  s.payload_len = static_cast<uint16_t>(ip_len - headers);
  s.l2_len = static_cast<uint8_t>(l2);
  s.l3_len = static_cast<uint8_t>(l3);
  s.l4_len = static_cast<uint8_t>(l4);
  return true;
}
inline bool recognise_inbound(const rte_mbuf& m, PlainSegment& s) noexcept {
  return recognise<Direction::kInbound>(m, s);
}
inline bool recognise_outbound(const rte_mbuf& m, PlainSegment& s) noexcept {
  return recognise<Direction::kOutbound>(m, s);
}

}  // namespace pxio
