// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/packet_view.h"

#include <algorithm>

#include "pxio/dp/checksum.h"
#include "pxio/dp/pkt.h"
#include "pxio/dp/plain_datagram.h"
#include "pxio/dp/tcp_options.h"

namespace pxio {
namespace {

// Two VLAN tags, an IPv6 header and the longest TCP header: 22 + 40 + 60. Extension headers need more,
// and are pulled when they are met.
constexpr uint32_t kUsualHeaders = 122;
// No stack sends longer chains; a bound keeps a crafted one cheap.
constexpr int kMaxExtensions = 8;

class Parser {
 public:
  Parser(rte_mbuf& m, Link link, PacketView& v) : m_(m), link_(link), v_(v) {}

  void run() {
    need(kUsualHeaders);
    uint16_t type = 0;
    if (link_ == Link::kRawIp) {
      if (!have(1)) return non_ip();
      const unsigned version = data(m_)[0] >> 4;
      type = version == 4 ? kEtherIpv4 : version == 6 ? kEtherIpv6 : 0;
    } else {
      if (!have(sizeof(EthernetHeader))) return non_ip();
      type = header_at<EthernetHeader>(m_, 0).type.host();
      v_.l2_len = sizeof(EthernetHeader);
      while (is_vlan(type) && v_.vlan_tags < 2) {
        if (!have(v_.l2_len + sizeof(VlanTag))) return non_ip();
        type = header_at<VlanTag>(m_, v_.l2_len).type.host();
        v_.l2_len += sizeof(VlanTag);
        ++v_.vlan_tags;
      }
    }
    if (type == kEtherIpv4) return ipv4();
    if (type == kEtherIpv6) return ipv6();
    return non_ip();
  }

 private:
  // Tries to have min(len, packet) bytes contiguous.
  void need(uint32_t len) {
    len = std::min(len, m_.pkt_len);
    if (m_.data_len < len) pull(m_, static_cast<uint16_t>(len));
  }
  bool have(uint32_t len) {
    if (m_.data_len >= len) [[likely]] return true;
    need(len);
    return m_.data_len >= len;
  }

  void non_ip() {
    v_.kind = Kind::kNonIp;
    v_.why = Opaque::kNotIp;
  }
  void other(Opaque why) {
    v_.kind = Kind::kOtherIp;
    v_.why = why;
  }
  void fragment() {
    v_.kind = Kind::kFragment;
    v_.why = Opaque::kFragment;
  }

  void ipv4() {
    const uint32_t off = v_.l2_len;
    if (!have(off + kIpv4HeaderLen)) return non_ip();
    const auto& ip = header_at<Ipv4Header>(m_, off);
    const unsigned ihl = ip.ihl_bytes();
    if (ip.version_ihl >> 4 != 4) return non_ip();
    if (ihl < kIpv4HeaderLen || ip.total_len.host() < ihl || !have(off + ihl)) return non_ip();
    v_.version = 4;
    v_.l3_len = static_cast<uint16_t>(ihl);
    v_.ip_len = ip.total_len.host();
    v_.proto = ip.proto;
    if ((ip.frag.host() & (kIpMf | kIpOffsetMask)) != 0) return fragment();
    if (ihl != kIpv4HeaderLen) {
      v_.why = Opaque::kIpOptions;
    } else if (!ipv4_header_ok(header_at<Ipv4Header>(m_, off))) {
      v_.why = Opaque::kIpChecksum;
    }
    return upper();
  }

  void ipv6() {
    const uint32_t off = v_.l2_len;
    if (!have(off + kIpv6HeaderLen)) return non_ip();
    const auto& ip = header_at<Ipv6Header>(m_, off);
    if (ip.version_class_flow.bytes[0] >> 4 != 6) return non_ip();
    v_.version = 6;
    v_.l3_len = kIpv6HeaderLen;
    v_.ip_len = kIpv6HeaderLen + ip.payload_len.host();
    v_.proto = ip.next;
    for (int i = 0; is_extension(v_.proto); ++i) {
      if (v_.proto == kProtoFragment) return fragment();
      v_.why = Opaque::kIpOptions;
      const uint32_t at = off + v_.l3_len;
      if (i == kMaxExtensions || v_.l3_len + 8u > v_.ip_len || !have(at + 8)) return other(Opaque::kLengths);
      const uint8_t* ext = data(m_) + at;
      v_.proto = ext[0];
      v_.l3_len = static_cast<uint16_t>(v_.l3_len + (ext[1] + 1u) * 8);
    }
    return upper();
  }

  // AH and ESP end the walk: what they protect isn't ours to read (they count as other protocols).
  static bool is_extension(uint8_t proto) {
    return proto == kProtoHopByHop || proto == kProtoRouting || proto == kProtoFragment ||
           proto == kProtoDestOptions;
  }

  void upper() {
    const uint32_t off = v_.l4_off();
    if (v_.ip_len < v_.l3_len) return other(Opaque::kLengths);
    const bool whole = v_.l2_len + v_.ip_len <= m_.pkt_len;
    if (v_.proto != kProtoTcp) {
      if (!whole) return other(Opaque::kCutShort);
      if (v_.proto == kProtoUdp && v_.ip_len >= v_.l3_len + sizeof(UdpHeader) &&
          have(off + sizeof(UdpHeader))) {
        v_.kind = Kind::kUdp;
        return;
      }
      const uint8_t icmp = v_.version == 4 ? kProtoIcmp : kProtoIcmpv6;
      if (v_.proto == icmp && v_.ip_len >= v_.l3_len + sizeof(IcmpHeader) &&
          have(off + sizeof(IcmpHeader))) {
        v_.kind = Kind::kIcmp;
        return;
      }
      return other(Opaque::kNotTcp);
    }
    // The ports make the flow; without them only the addresses are known.
    if (v_.ip_len < v_.l3_len + 4u || !have(off + 4)) return other(Opaque::kLengths);
    v_.kind = Kind::kTcpOpaque;
    if (v_.ip_len < v_.l3_len + kTcpHeaderLen) return opaque(Opaque::kLengths);
    if (!have(off + kTcpHeaderLen)) return opaque(Opaque::kCutShort);
    const auto& tcp = header_at<TcpHeader>(m_, off);
    const unsigned len = tcp.len();
    if (len < kTcpHeaderLen || v_.l3_len + len > v_.ip_len) return opaque(Opaque::kLengths);
    v_.l4_len = static_cast<uint8_t>(len);
    v_.payload_len = static_cast<uint16_t>(v_.ip_len - v_.l3_len - len);
    v_.flags = tcp.flags();
    v_.seq = tcp.seq.host();
    v_.ack = tcp.ack.host();
    v_.window = tcp.window.host();
    if (!whole || !have(off + len)) return opaque(Opaque::kCutShort);
    if (v_.why != Opaque::kNone) return;
    v_.kind = Kind::kTcp;
    options(data(m_) + off, len);
  }

  void opaque(Opaque why) {
    v_.why = why;
  }

  void options(const uint8_t* tcp, unsigned len) {
    if (len == kTcpHeaderLen) return;
    const TcpOptions o = parse_tcp_options(tcp, len);
    v_.ts_off = o.ts_off;
    v_.mss_off = o.mss_off;
    v_.signed_ = o.signed_;
    v_.mptcp = o.mptcp;
    v_.bad_options = o.malformed;
    if (o.ts_off != 0) {
      be32 value;
      std::memcpy(&value, tcp + o.ts_off, 4);
      v_.tsval = value.host();
      std::memcpy(&value, tcp + o.ts_off + 4, 4);
      v_.tsecr = value.host();
    }
  }

  rte_mbuf& m_;
  Link link_;
  PacketView& v_;
};

}  // namespace

PacketView parse(rte_mbuf& m, Link link) noexcept {
  PacketView v;
  if (link != Link::kEthernet || !plain_datagram(m, v)) Parser(m, link, v).run();
  return v;
}

}  // namespace pxio
