// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/flow_hash.h"

#include <cstring>

#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"
#include "pxio/dp/wire.h"

namespace pxio {
namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  return x ^ x >> 32;
}

// Both ends add up, so that their order doesn't matter.
uint32_t both(uint64_t secret, uint64_t a, uint64_t b) {
  return static_cast<uint32_t>(mix(secret ^ (mix(a ^ secret) + mix(b ^ secret))) >> 32);
}

uint64_t end6(const uint8_t* addr, uint64_t port) {
  return mix(load<uint64_t>(addr)) + load<uint64_t>(addr + 8) * 0x9e3779b97f4a7c15 + (port << 48 | port);
}

// Of an IP header without options or extension headers at `ip`, with the ports behind it.
uint32_t hash_at(uint64_t secret, const uint8_t* ip, int version, const uint8_t* ports) {
  const uint64_t src = ports != nullptr ? load<uint16_t>(ports) : 0;
  const uint64_t dst = ports != nullptr ? load<uint16_t>(ports + 2) : 0;
  if (version == 4) return both(secret, load<uint32_t>(ip + 12) | src << 32, load<uint32_t>(ip + 16) | dst << 32);
  return both(secret, end6(ip + 8, src), end6(ip + 24, dst));
}

constexpr uint32_t kQuoteAt = 8;  // behind the ICMP header

bool is_error(int version, uint8_t type) {
  return version == 4 ? type == 3 || type == 4 || type == 11 || type == 12 : type < 128;
}

// Most packets need no full parse: TCP or UDP right behind an IP header without options, whole.
bool plain_hash(const FlowHash& h, const rte_mbuf& m, uint32_t& hash) noexcept {
  const uint8_t* p = data(m);
  if (m.data_len < sizeof(EthernetHeader) + 2 * sizeof(VlanTag) + kIpv6HeaderLen + 4) return false;
  uint16_t type = load<be16>(p + 12).host();
  const uint8_t* ip = p + sizeof(EthernetHeader);
  for (int tags = 0; tags < 2 && is_vlan(type); ++tags, ip += sizeof(VlanTag)) type = load<be16>(ip + 2).host();
  int version;
  uint8_t proto;
  const uint8_t* ports;
  if (type == kEtherIpv4) {
    if (ip[0] != 0x45 || (load<be16>(ip + 6).host() & (kIpMf | kIpOffsetMask)) != 0) return false;
    version = 4, proto = ip[9], ports = ip + kIpv4HeaderLen;
  } else if (type == kEtherIpv6) {
    if (ip[0] >> 4 != 6) return false;
    version = 6, proto = ip[6], ports = ip + kIpv6HeaderLen;
  } else {
    return false;
  }
  if (proto != kProtoTcp && (proto != kProtoUdp || h.by_address != 0)) return false;
  hash = hash_at(h.secret, ip, version, ports);
  return true;
}

}  // namespace

uint32_t FlowHash::operator()(rte_mbuf& m) const noexcept {
  if (uint32_t hash; plain_hash(*this, m, hash)) [[likely]] return hash;
  const PacketView v = parse(m, Link::kEthernet);
  if (v.version == 0) return 0;
  const uint8_t* p = data(m);
  const uint8_t* ip = p + v.l2_len;
  const uint32_t l4 = v.l4_off();
  if (v.has_flow()) return hash_at(secret, ip, v.version, p + l4);
  if (v.kind == Kind::kUdp && l4 + sizeof(UdpHeader) <= m.data_len) {
    const uint16_t src = load<be16>(p + l4).host(), dst = load<be16>(p + l4 + 2).host();
    const bool alone = by_address != 0 && (src == by_address || dst == by_address);
    return hash_at(secret, ip, v.version, alone ? nullptr : p + l4);
  }
  // An error is for whoever has the flow that it quotes.
  const uint32_t quote = l4 + kQuoteAt;
  const uint32_t least = v.version == 4 ? kIpv4HeaderLen : kIpv6HeaderLen;
  if (v.kind == Kind::kIcmp && quote + least <= m.data_len && is_error(v.version, p[l4])) {
    const uint8_t* q = p + quote;
    if (v.version == 4 && q[0] >> 4 == 4) {
      const uint32_t l3 = (q[0] & 15u) * 4;
      const bool first = (load<be16>(q + 6).host() & kIpOffsetMask) == 0;
      const bool ports = first && (q[9] == kProtoTcp || q[9] == kProtoUdp) && quote + l3 + 4 <= m.data_len;
      return hash_at(secret, q, 4, ports ? q + l3 : nullptr);
    }
    if (v.version == 6 && q[0] >> 4 == 6) {
      const bool ports = (q[6] == kProtoTcp || q[6] == kProtoUdp) && quote + kIpv6HeaderLen + 4 <= m.data_len;
      return hash_at(secret, q, 6, ports ? q + kIpv6HeaderLen : nullptr);
    }
  }
  return hash_at(secret, ip, v.version, nullptr);
}

}  // namespace pxio
