// SPDX-License-Identifier: BSD-3-Clause
// UDP as it mostly comes, recognised without a full parse: no VLAN tag, no fragment, an IP header as short as it may
// be, all headers in one place. Everything else goes through parse(), which says the same of these. Worker threads.
#pragma once
#include "pxio/dp/checksum.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"
#include "pxio/dp/wire.h"

namespace pxio {

// Fills `v`. False: not plain, and `v` untouched. `m` begins with an Ethernet header.
inline bool plain_datagram(const rte_mbuf& m, PacketView& v) noexcept {
  constexpr uint32_t kLink = sizeof(EthernetHeader);
  constexpr uint16_t kUsualHeaders = 122;  // of chains, which parse() would pull together
  constexpr auto raw = [](uint16_t t) { return static_cast<uint16_t>(t << 8 | t >> 8); };
  const uint8_t* p = data(m);
  const uint8_t* ip = p + kLink;
  if (m.data_len < (m.nb_segs == 1 ? kLink + kIpv4HeaderLen + sizeof(UdpHeader) : kUsualHeaders)) return false;
  const uint16_t type = load<uint16_t>(p + 12);
  const bool v4 = type == raw(kEtherIpv4);
  uint32_t ip_len;
  if (v4) {
    const uint64_t second = load<uint64_t>(ip + 8);
    if ((second >> 8 & 0xff) != kProtoUdp) return false;
    const uint64_t first = load<uint64_t>(ip);
    ip_len = load<be16>(ip + 2).host();
    if ((first & 0xff) != 0x45 || (first >> 48 & raw(kIpMf | kIpOffsetMask)) != 0 ||
        ip_len < kIpv4HeaderLen + sizeof(UdpHeader) || kLink + ip_len > m.pkt_len)
      return false;
    const uint64_t sum = (first & 0xffffffff) + (first >> 32) + (second & 0xffffffff) + (second >> 32) +
                         load<uint32_t>(ip + 16);
    if (fold(sum) != 0xffff) return false;
  } else if (type == raw(kEtherIpv6)) {
    const uint32_t payload = load<be16>(ip + 4).host();
    if (ip[6] != kProtoUdp || ip[0] >> 4 != 6 || payload < sizeof(UdpHeader) ||
        m.data_len < kLink + kIpv6HeaderLen + sizeof(UdpHeader) || kLink + kIpv6HeaderLen + payload > m.pkt_len)
      return false;
    ip_len = kIpv6HeaderLen + payload;
  } else {
    return false;
  }
  v = PacketView{};
  v.kind = Kind::kUdp;
  v.version = v4 ? 4 : 6;
  v.proto = kProtoUdp;
  v.l2_len = kLink;
  v.l3_len = v4 ? kIpv4HeaderLen : kIpv6HeaderLen;
  v.ip_len = ip_len;
  return true;
}

}  // namespace pxio
