// SPDX-License-Identifier: BSD-3-Clause
// What datagrams to the caravan port are or claim to be. Worker thread.
#pragma once
#include "caravan/core/hello.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"

namespace caravan {

// Of a datagram (Kind::kUdp).
inline bool to_port(const rte_mbuf& m, const pxio::PacketView& v, uint16_t port) noexcept {
  return pxio::load<be16>(pxio::data(m) + v.l4_off() + 2).host() == port;
}
// Whether its payload begins with the magic and that type.
inline bool has_type(const rte_mbuf& m, const pxio::PacketView& v, Type type) noexcept {
  uint8_t scratch[4];
  if (v.ip_len < v.l3_len + kUdpBytes + sizeof scratch) return false;
  const void* p = rte_pktmbuf_read(&m, v.l4_off() + static_cast<uint32_t>(kUdpBytes), sizeof scratch, scratch);
  return type_of({static_cast<const uint8_t*>(p), sizeof scratch}) == type;
}
// Whether a fragment (Kind::kFragment) is the first of a datagram to that port that begins so, or too short to
// tell.
inline bool may_begin(const rte_mbuf& m, const pxio::PacketView& v, uint16_t port, Type type) noexcept {
  uint32_t at = uint32_t{v.l2_len} + v.l3_len;
  const uint32_t end = uint32_t{v.l2_len} + v.ip_len;
  uint8_t scratch[8];
  const auto next = [&](uint32_t length) {
    const void* p = at + length <= end ? rte_pktmbuf_read(&m, at, length, scratch) : nullptr;
    at += length;
    return static_cast<const uint8_t*>(p);
  };
  if (v.version == 6) {
    const uint8_t* h = next(pxio::kIpv6FragmentHeaderLen);
    if (h == nullptr || h[0] != pxio::kProtoUdp || (pxio::load<be16>(h + 2).host() & pxio::kIpv6OffsetMask) != 0)
      return false;
  } else if (v.proto != pxio::kProtoUdp ||
             (pxio::header_at<pxio::Ipv4Header>(m, v.l2_len).frag.host() & pxio::kIpOffsetMask) != 0) {
    return false;
  }
  const uint8_t* udp = next(kUdpBytes);
  if (udp == nullptr || pxio::load<be16>(udp + 2).host() != port) return false;
  const uint8_t* begin = next(4);
  return begin == nullptr || type_of({begin, 4}) == type;
}

}  // namespace caravan
