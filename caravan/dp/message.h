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

}  // namespace caravan
