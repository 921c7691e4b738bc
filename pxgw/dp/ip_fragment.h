// SPDX-License-Identifier: BSD-3-Clause
// Fragmentation of IPv4 packets without DF (RFC 791). The library that comes with DPDK makes eight
// fragments at most and copies no options; this is the whole rule in one page. Worker thread.
#pragma once
#include <cstdint>

#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"

namespace pxgw {

// 64 KB in packets of 576 B.
inline constexpr uint16_t kMaxFragments = 128;

// Cuts `m` (IPv4, whole, DF clear; may be a fragment itself) into packets of at most `mtu` bytes, written
// to `out`; `m` stays the caller's. Returns their number; 0 where buffers are short or a length doesn't
// fit: then there are none.
uint16_t fragment_ipv4(const rte_mbuf& m, const pxio::PacketView& v, uint16_t mtu, rte_mempool* pool,
                       rte_mbuf** out) noexcept;

}  // namespace pxgw
