// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/icmp.h"

#include <algorithm>
#include <cstring>

#include "pxio/dp/checksum.h"

namespace pxgw {
namespace {

using namespace pxio;

constexpr uint8_t kUnreachable = 3, kFragNeeded = 4, kV6PacketTooBig = 2;
// As much as fits a packet that passes everywhere (RFC 1812, section 4.3.2.3; RFC 4443, section 2.4 c).
constexpr uint32_t kMaxError4 = 576, kMaxError6 = 1280;
constexpr uint8_t kErrorTtl = 64;

// Ones' complement sum of `len` bytes of a packet from `off` on.
uint16_t sum_packet(const rte_mbuf& m, uint32_t off, uint32_t len) {
  uint64_t sum = 0;
  bool odd = false;
  for (const rte_mbuf* seg = &m; seg != nullptr && len != 0; seg = seg->next) {
    if (off >= seg->data_len) {
      off -= seg->data_len;
      continue;
    }
    const uint32_t n = std::min<uint32_t>(len, seg->data_len - off);
    const uint16_t part = sum_bytes(data(*seg) + off, n);
    sum += odd ? swap_odd(part) : part;
    odd ^= n % 2 != 0;
    len -= n;
    off = 0;
  }
  return fold(sum);
}

bool is_icmp_error(const rte_mbuf& m, const PacketView& v) {
  if (v.kind != Kind::kIcmp) return false;
  const uint8_t type = header_at<IcmpHeader>(m, v.l4_off()).type;
  if (v.version == 6) return type < 128;
  return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

}  // namespace

bool is_too_big(const rte_mbuf& m, const PacketView& v) noexcept {
  const auto& icmp = header_at<IcmpHeader>(m, v.l4_off());
  return v.version == 4 ? icmp.type == kUnreachable && icmp.code == kFragNeeded
                        : icmp.type == kV6PacketTooBig;
}

std::optional<TooBig> read_too_big(const rte_mbuf& m, const PacketView& v, Direction d) noexcept {
  const uint32_t off = v.l4_off(), len = v.ip_len - v.l3_len;
  const uint32_t inner_len = v.version == 4 ? kIpv4HeaderLen : kIpv6HeaderLen;
  if (len < sizeof(IcmpHeader) + inner_len + 8) return std::nullopt;
  const uint64_t pseudo =
      v.version == 4 ? 0 : pseudo_sum(header_at<Ipv6Header>(m, v.l2_len), kProtoIcmpv6, len);
  if (fold(pseudo + sum_packet(m, off, len)) != 0xffff) return std::nullopt;

  // The quote, with the link-layer header of the error in front: from there on it parses like a packet.
  uint8_t copy[sizeof(IcmpHeader) + kIpv6HeaderLen + 40 + 8];
  const uint32_t want = std::min<uint32_t>(len, sizeof copy);
  const auto* p = static_cast<const uint8_t*>(rte_pktmbuf_read(&m, off, want, copy));
  if (p == nullptr) return std::nullopt;
  TooBig r;
  be32 rest;
  std::memcpy(&rest, p + offsetof(IcmpHeader, rest), 4);
  r.mtu = v.version == 4 ? rest.host() & 0xffff : rest.host();
  const uint8_t* inner = p + sizeof(IcmpHeader);
  uint32_t tcp = inner_len;
  uint64_t src[2] = {}, dst[2] = {};
  if (v.version == 4) {
    Ipv4Header ip;
    std::memcpy(&ip, inner, sizeof ip);
    tcp = ip.ihl_bytes();
    if (ip.version_ihl >> 4 != 4 || tcp < kIpv4HeaderLen || ip.proto != kProtoTcp ||
        (ip.frag.host() & kIpOffsetMask) != 0) {
      return std::nullopt;
    }
    src[0] = ip.src.raw();
    dst[0] = ip.dst.raw();
  } else {
    Ipv6Header ip;
    std::memcpy(&ip, inner, sizeof ip);
    if (ip.version_class_flow.bytes[0] >> 4 != 6 || ip.next != kProtoTcp) return std::nullopt;
    std::memcpy(src, ip.src, 16);
    std::memcpy(dst, ip.dst, 16);
  }
  if (sizeof(IcmpHeader) + tcp + 8 > want) return std::nullopt;
  uint16_t src_port, dst_port;
  std::memcpy(&src_port, inner + tcp, 2);
  std::memcpy(&dst_port, inner + tcp + 2, 2);
  be32 seq;
  std::memcpy(&seq, inner + tcp + 4, 4);
  r.seq = seq.host();
  // What travelled outbound is quoted by what comes inbound: its source is the inside end.
  const bool quoted_outbound = d == Direction::kInbound;
  const uint64_t* in = quoted_outbound ? src : dst;
  const uint64_t* out = quoted_outbound ? dst : src;
  r.key.version = v.version;
  r.key.ports = quoted_outbound ? src_port | uint32_t{dst_port} << 16 : dst_port | uint32_t{src_port} << 16;
  if (v.version == 4) {
    r.key.addr[0] = in[0] | out[0] << 32;
  } else {
    r.key.addr = {in[0], in[1], out[0], out[1]};
  }
  if (v.vlan_tags != 0) std::memcpy(&r.key.vlan, data(m) + 12, size_t{4} * v.vlan_tags);
  r.key.vlan &= kVlanKeyMask;
  return r;
}

PktPtr make_too_big(const rte_mbuf& m, const PacketView& v, uint16_t mtu, const Policy& policy,
                    rte_mempool* pool) noexcept {
  if (v.version == 0 || is_icmp_error(m, v)) return {};
  const uint8_t* l2 = data(m);
  if (v.l2_len >= sizeof(EthernetHeader) && ((l2[0] | l2[6]) & 1) != 0) return {};  // group addresses
  const bool v6 = v.version == 6;
  const uint32_t ip_len = v6 ? kIpv6HeaderLen : kIpv4HeaderLen;
  const uint32_t quote = std::min(v.ip_len, (v6 ? kMaxError6 : kMaxError4) - ip_len -
                                                static_cast<uint32_t>(sizeof(IcmpHeader)));
  const uint32_t l4_len = static_cast<uint32_t>(sizeof(IcmpHeader)) + quote;
  PktPtr e(rte_pktmbuf_alloc(pool));
  if (!e || rte_pktmbuf_append(e.get(), static_cast<uint16_t>(v.l2_len + ip_len + l4_len)) == nullptr)
    return {};
  std::memcpy(data(*e), l2, v.l2_len);
  if (v.l2_len >= sizeof(EthernetHeader)) {  // back to where it came from, tags as they were
    std::memcpy(data(*e), l2 + 6, 6);
    std::memcpy(data(*e) + 6, l2, 6);
  }
  uint8_t* body = data(*e) + v.l2_len + ip_len + sizeof(IcmpHeader);
  if (const void* q = rte_pktmbuf_read(&m, v.l2_len, quote, body); q == nullptr) {
    return {};
  } else if (q != body) {
    std::memcpy(body, q, quote);
  }
  auto& icmp = header_at<IcmpHeader>(*e, v.l2_len + ip_len);
  icmp.type = v6 ? kV6PacketTooBig : kUnreachable;
  icmp.code = v6 ? 0 : kFragNeeded;
  icmp.checksum = be16(0);
  icmp.rest = be32(mtu);
  uint64_t sum = sum_bytes(&icmp, l4_len);
  if (v6) {
    const auto& from = header_at<Ipv6Header>(m, v.l2_len);
    constexpr uint8_t kUnspecified[16] = {};
    if (from.dst[0] == 0xff || from.src[0] == 0xff || std::memcmp(from.src, kUnspecified, 16) == 0)
      return {};
    auto& ip = header_at<Ipv6Header>(*e, v.l2_len);
    ip.version_class_flow = be32(6u << 28);
    ip.payload_len = be16(static_cast<uint16_t>(l4_len));
    ip.next = kProtoIcmpv6;
    ip.hop_limit = kErrorTtl;
    std::memcpy(ip.src, policy.icmp_from6 ? policy.icmp_from6->data() : from.dst, 16);
    std::memcpy(ip.dst, from.src, 16);
    sum += pseudo_sum(ip, kProtoIcmpv6, l4_len);
  } else {
    const auto& from = header_at<Ipv4Header>(m, v.l2_len);
    const uint8_t src_net = from.src.bytes[0];
    if ((from.frag.host() & kIpOffsetMask) != 0 || from.dst.bytes[0] >= 224) return {};
    if (src_net >= 224 || src_net == 0 || src_net == 127) return {};
    auto& ip = header_at<Ipv4Header>(*e, v.l2_len);
    ip = Ipv4Header{};
    ip.version_ihl = 0x45;
    ip.tos = 0xc0;  // RFC 1812, section 4.3.2.5: internetwork control
    ip.total_len = be16(static_cast<uint16_t>(ip_len + l4_len));
    ip.frag = be16(kIpDf);
    ip.ttl = kErrorTtl;
    ip.proto = kProtoIcmp;
    if (policy.icmp_from4) {
      std::memcpy(&ip.src, policy.icmp_from4->data(), 4);
    } else {
      ip.src = from.dst;
    }
    ip.dst = from.src;
    set_ipv4_checksum(ip);
  }
  icmp.checksum = be16::from_raw(static_cast<uint16_t>(~fold(sum)));
  return e;
}

}  // namespace pxgw
