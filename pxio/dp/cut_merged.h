// SPDX-License-Identifier: BSD-3-Clause
// What a port merged and nobody but us takes apart: TCP segments and datagrams inside a tunnel that only passes through,
// which the kernel merges but doesn't take apart again, segments behind extension headers, and datagrams that leave by
// a port without a kernel. Worker threads.
#pragma once
#include <rte_mbuf.h>

#include <cstdint>

#include "pxio/dp/buffers.h"
#include "pxio/dp/packet_view.h"

namespace pxio {

// Whether it is several datagrams that a port merged. Unlike TCP that isn't the same as one, however small.
inline bool merged_datagrams(const rte_mbuf& m, const PacketView& v) noexcept {
  return (m.ol_flags & RTE_MBUF_F_RX_LRO) != 0 && m.tso_segsz != 0 && v.kind == Kind::kUdp &&
         v.ip_len > v.l3_len + sizeof(UdpHeader) + m.tso_segsz;
}

// Cuts `m`, whose innermost TCP or UDP header begins at `l4_at`, into the packets that it was merged from, of `size`
// bytes of payload each (the last of what is left): lengths, IPv4 IDs, sequence numbers, flags and all checksums are
// made anew, so that the old ones must be known to have held. Tunnels: IP in IP, GRE, also with Ethernet in it, VXLAN
// and Geneve, in any order. Writes at most `most` packets to `out`; `m` stays the caller's. Returns how many there are;
// 0: more than that, another kind of tunnel, headers that don't agree, or no buffers.
uint16_t cut_merged(const rte_mbuf& m, uint32_t l4_at, uint16_t size, const Buffers& buffers, rte_mbuf** out,
                    uint16_t most) noexcept;

}  // namespace pxio
