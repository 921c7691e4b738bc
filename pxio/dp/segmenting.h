// SPDX-License-Identifier: BSD-3-Clause
// Packets that their port cuts into TCP segments: TSO of a NIC, GSO of the kernel. Such a packet bears
// RTE_MBUF_F_TX_TCP_SEG, the payload of a segment in tso_segsz and its header lengths in l2_len, l3_len,
// l4_len; it ends where its IP packet ends. Worker threads.
#pragma once
#include <rte_mbuf.h>

#include <cstdint>

#include "pxio/dp/packet_view.h"
#include "pxio/dp/split.h"

namespace pxio {

// What a port can cut. The segments have what split() gives them, but for what is said of CWR.
struct Segmenting {
  bool able = false;
  // CWR goes on the first segment alone (RFC 3168, section 6.1.2). Where that isn't so, packets with CWR
  // or AE are for software: NICs repeat CWR, or clear what AccECN (RFC 9768) counts with.
  bool knows_cwr = false;
  uint16_t min_size = 1, max_size = UINT16_MAX;      // payload of a segment, bytes
  uint32_t max_bytes = UINT16_MAX;                   // IP packet before it is cut
  uint16_t max_buffers = UINT16_MAX;                 // that the packet is chained of
  uint16_t max_buffers_per_segment = UINT16_MAX;     // that one segment may touch, its header's included
};

// Whether the port can cut this packet, kind kTcp, into segments of `size` bytes of payload.
bool can_cut(const Segmenting& port, const rte_mbuf& m, const PacketView& v, uint32_t size,
             CwrRule cwr) noexcept;

// Marks the packet, and cuts off what lies behind its IP packet. Its checksum has been proved: the port
// makes new ones without looking at it.
void leave_as_segments(rte_mbuf& m, const PacketView& v, uint16_t size) noexcept;

// The headers that every segment gets, of a marked packet. Bytes.
inline uint32_t marked_headers(const rte_mbuf& m) noexcept {
  return static_cast<uint32_t>(m.l2_len + m.l3_len + m.l4_len);
}
// Packets that become of this one on the wire.
inline uint32_t packets_on_wire(const rte_mbuf& m) noexcept {
  if ((m.ol_flags & RTE_MBUF_F_TX_TCP_SEG) == 0) [[likely]] return 1;
  return (m.pkt_len - marked_headers(m) + m.tso_segsz - 1u) / m.tso_segsz;
}

}  // namespace pxio
