// SPDX-License-Identifier: BSD-3-Clause
// ICMP "fragmentation needed" (RFC 1191) and ICMPv6 "packet too big" (RFC 8201): what they quote, and
// making them. Worker thread.
#pragma once
#include <cstdint>
#include <optional>

#include "pxgw/dp/policy.h"
#include "pxio/dp/buffers.h"
#include "pxio/dp/flow_table.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"

namespace pxgw {

struct TooBig {
  uint32_t mtu = 0;       // as the router said it; not trusted
  uint32_t seq = 0;       // of the quoted TCP segment
  pxio::FlowKey key;
};

// Whether the message (kind kIcmp) is a too-big error.
bool is_too_big(const rte_mbuf& m, const pxio::PacketView& v) noexcept;

// Reads a too-big error that came in direction `d` about a TCP segment that travelled the other way.
// No value where it quotes no TCP, too little of it, or its checksum is wrong.
std::optional<TooBig> read_too_big(const rte_mbuf& m, const pxio::PacketView& v,
                                   pxio::Direction d) noexcept;

// Makes the error about `m`, an IP packet that can't pass a link of `mtu`, to be sent back to where it
// came from. Null where none may be sent (RFC 1122, section 3.2.2; RFC 4443, section 2.4 e): about ICMP
// errors, fragments but the first, multicast and broadcast; or where there is no buffer.
pxio::PktPtr make_too_big(const rte_mbuf& m, const pxio::PacketView& v, uint16_t mtu, const Policy& policy,
                          rte_mempool* pool) noexcept;

}  // namespace pxgw
