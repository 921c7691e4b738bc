// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/cut_merged.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "pxio/dp/checksum.h"
#include "pxio/dp/pkt.h"
#include "pxio/dp/wire.h"

namespace pxio {
namespace {

constexpr uint8_t kProtoIpip = 4, kProtoIpv6 = 41, kProtoGre = 47;
constexpr uint16_t kEtherBridged = 0x6558;                    // Ethernet in GRE or Geneve
constexpr uint16_t kVxlanPort = 4789, kGenevePort = 6081;     // RFC 7348, RFC 8926
constexpr uint16_t kGreChecksum = 0x8000, kGreKey = 0x2000;   // RFC 2784, RFC 2890
constexpr uint32_t kMostHeaders = 256;

// What has a length or checksum of its own, from the outside to the inside.
struct Layer {
  enum class Kind : uint8_t { kIpv4, kIpv6, kUdp, kGre } kind;
  uint16_t at;
};
struct Layers {
  std::array<Layer, 12> of;
  uint8_t n = 0;
  bool add(Layer::Kind kind, uint32_t at) {
    if (n == of.size()) return false;
    of[n++] = {kind, static_cast<uint16_t>(at)};
    return true;
  }
};

// Finds the layers before the TCP header at `end`, or up to the UDP header there, which is one of them; all bytes up to
// `end` are contiguous at `p`. False: something else stands there.
bool find_layers(const uint8_t* p, uint32_t end, Layers& layers) noexcept {
  const auto word = [&](uint32_t at) { return load<be16>(p + at).host(); };
  uint32_t at = sizeof(EthernetHeader);
  uint16_t type = word(12);
  for (;;) {
    while (is_vlan(type)) {
      if (at + sizeof(VlanTag) > end) return false;
      type = word(at + 2);
      at += sizeof(VlanTag);
    }
    uint8_t proto = 0;
    if (type == kEtherIpv4) {
      if (at + kIpv4HeaderLen > end || !layers.add(Layer::Kind::kIpv4, at)) return false;
      const auto& ip = *reinterpret_cast<const Ipv4Header*>(p + at);
      if (ip.version_ihl >> 4 != 4 || ip.ihl_bytes() < kIpv4HeaderLen || (ip.frag.host() & (kIpMf | kIpOffsetMask)) != 0)
        return false;
      proto = ip.proto;
      at += ip.ihl_bytes();
    } else if (type == kEtherIpv6) {
      if (at + kIpv6HeaderLen > end || !layers.add(Layer::Kind::kIpv6, at)) return false;
      proto = p[at + offsetof(Ipv6Header, next)];
      at += kIpv6HeaderLen;
      while (proto == kProtoHopByHop || proto == kProtoRouting || proto == kProtoDestOptions) {
        if (at + 8 > end) return false;
        proto = p[at];
        at += (p[at + 1] + 1u) * 8;
      }
    } else {
      return false;
    }
    bool bridged = false;
    if (proto == kProtoTcp) return at == end;
    if (proto == kProtoIpip) {
      type = kEtherIpv4;
    } else if (proto == kProtoIpv6) {
      type = kEtherIpv6;
    } else if (proto == kProtoGre) {
      if (at + 4 > end || !layers.add(Layer::Kind::kGre, at)) return false;
      const uint16_t flags = word(at);
      if ((flags & ~(kGreChecksum | kGreKey)) != 0) return false;
      type = word(at + 2);
      bridged = type == kEtherBridged;
      at += 4u + ((flags & kGreChecksum) != 0 ? 4 : 0) + ((flags & kGreKey) != 0 ? 4 : 0);
    } else if (proto == kProtoUdp) {
      if (at == end) return layers.add(Layer::Kind::kUdp, at);
      if (at + sizeof(UdpHeader) + 8 > end || !layers.add(Layer::Kind::kUdp, at)) return false;
      const uint16_t port = word(at + 2);
      at += sizeof(UdpHeader);
      if (port == kVxlanPort) {
        bridged = true;
        at += 8;
      } else if (port == kGenevePort) {
        type = word(at + 2);
        bridged = type == kEtherBridged;
        at += 8u + (p[at] & 0x3fu) * 4;
      } else {
        return false;
      }
    } else {
      return false;
    }
    if (bridged) {
      if (at + sizeof(EthernetHeader) > end) return false;
      type = word(at + 12);
      at += sizeof(EthernetHeader);
    }
  }
}

uint16_t checksum_of(uint64_t sum) { return static_cast<uint16_t>(~fold(sum)); }

bool ends_with_udp(const Layers& layers) { return layers.of[layers.n - 1u].kind == Layer::Kind::kUdp; }

// Lengths, then checksums from the inside to the outside, of the packet of `len` bytes at `p`; its number is `k`.
void mend(uint8_t* p, uint32_t len, uint32_t l4_at, const Layers& layers, uint16_t k) noexcept {
  const auto pseudo_of = [p](const Layer& ip, uint8_t proto, uint32_t l4_len) {
    return ip.kind == Layer::Kind::kIpv4 ? pseudo_sum(*reinterpret_cast<const Ipv4Header*>(p + ip.at), proto, l4_len)
                                         : pseudo_sum(*reinterpret_cast<const Ipv6Header*>(p + ip.at), proto, l4_len);
  };
  for (uint8_t i = 0; i < layers.n; ++i) {
    const Layer& l = layers.of[i];
    if (l.kind == Layer::Kind::kIpv4) {
      auto& ip = *reinterpret_cast<Ipv4Header*>(p + l.at);
      ip.total_len = be16(static_cast<uint16_t>(len - l.at));
      ip.id = be16(static_cast<uint16_t>(ip.id.host() + k));
      set_ipv4_checksum(ip);
    } else if (l.kind == Layer::Kind::kIpv6) {
      reinterpret_cast<Ipv6Header*>(p + l.at)->payload_len = be16(static_cast<uint16_t>(len - l.at - kIpv6HeaderLen));
    } else if (l.kind == Layer::Kind::kUdp) {
      reinterpret_cast<UdpHeader*>(p + l.at)->len = be16(static_cast<uint16_t>(len - l.at));
    }
  }
  if (!ends_with_udp(layers)) {
    auto& tcp = *reinterpret_cast<TcpHeader*>(p + l4_at);
    const uint64_t pseudo = pseudo_of(layers.of[layers.n - 1u], kProtoTcp, len - l4_at);
    tcp.checksum = be16(0);
    tcp.checksum = be16::from_raw(checksum_of(pseudo + sum_bytes(p + l4_at, len - l4_at)));
  }
  for (uint8_t i = layers.n; i-- != 0;) {
    const Layer& l = layers.of[i];
    if (l.kind == Layer::Kind::kUdp) {
      auto& udp = *reinterpret_cast<UdpHeader*>(p + l.at);
      if (udp.checksum.raw() == 0) continue;  // it had none
      udp.checksum = be16(0);
      const uint16_t sum = checksum_of(pseudo_of(layers.of[i - 1u], kProtoUdp, len - l.at) + sum_bytes(p + l.at, len - l.at));
      udp.checksum = be16::from_raw(sum != 0 ? sum : uint16_t{0xffff});
    } else if (l.kind == Layer::Kind::kGre && (load<be16>(p + l.at).host() & kGreChecksum) != 0) {
      be16& field = *reinterpret_cast<be16*>(p + l.at + 4);
      field = be16(0);
      field = be16::from_raw(checksum_of(sum_bytes(p + l.at, len - l.at)));
    }
  }
}

void copy_out(const rte_mbuf& m, uint32_t offset, uint32_t len, uint8_t* to) noexcept {
  if (const void* p = rte_pktmbuf_read(&m, offset, len, to); p != to && p != nullptr) std::memcpy(to, p, len);
}

}  // namespace

uint16_t cut_merged(const rte_mbuf& m, uint32_t l4_at, uint16_t size, const Buffers& buffers, rte_mbuf** out,
                    uint16_t most) noexcept {
  if (size == 0 || m.data_len < l4_at + sizeof(UdpHeader) || l4_at < sizeof(EthernetHeader)) return 0;
  const uint8_t* p = data(m);
  Layers layers;
  if (l4_at > kMostHeaders || !find_layers(p, l4_at, layers)) return 0;
  const bool udp = ends_with_udp(layers);
  uint32_t l4_len = sizeof(UdpHeader);
  if (!udp) {
    if (m.data_len < l4_at + kTcpHeaderLen) return 0;
    l4_len = reinterpret_cast<const TcpHeader*>(p + l4_at)->len();
    if (l4_len < kTcpHeaderLen) return 0;
  }
  const uint32_t headers = l4_at + l4_len;
  if (headers > kMostHeaders || m.data_len < headers || m.pkt_len <= headers) return 0;
  const uint32_t payload = m.pkt_len - headers, n = (payload + size - 1) / size;
  rte_mempool* pool = pool_for(buffers, headers + size);
  if (n > most || headers + size > room_of(pool) || !new_packets(pool, out, static_cast<uint16_t>(n))) return 0;
  for (uint32_t k = 0; k < n; ++k) {
    const uint32_t part = std::min<uint32_t>(size, payload - k * size);
    uint8_t* to = extend(*out[k], static_cast<uint16_t>(headers + part));
    std::memcpy(to, p, headers);
    copy_out(m, headers + k * size, part, to + headers);
    if (!udp) {
      auto& tcp = *reinterpret_cast<TcpHeader*>(to + l4_at);
      tcp.seq = be32(tcp.seq.host() + k * size);
      uint16_t flags = tcp.off_flags.host();
      if (k + 1 != n) flags = static_cast<uint16_t>(flags & ~(kPsh | kFin));
      if (k != 0) flags = static_cast<uint16_t>(flags & ~kCwr);
      tcp.off_flags = be16(flags);
    }
    mend(to, headers + part, l4_at, layers, static_cast<uint16_t>(k));
  }
  return static_cast<uint16_t>(n);
}

}  // namespace pxio
