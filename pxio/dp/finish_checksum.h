// SPDX-License-Identifier: BSD-3-Clause
// Completes checksums that the sender left to hardware. Worker threads.
#pragma once
#include <rte_mbuf.h>

#include <cstdint>

#include "pxio/dp/packet_view.h"

namespace pxio {

// Sum of `len` bytes of the packet from `offset` on, over all its buffers. Folded.
uint16_t sum_packet(const rte_mbuf& m, uint32_t offset, uint32_t len) noexcept;

// The checksum field at `start + offset` holds the sum of the pseudo-header alone: makes it that of all
// bytes from `start` to the packet's end. False where it lies outside the first buffer.
bool finish_checksum(rte_mbuf& m, uint32_t start, uint32_t offset) noexcept;

// The same for SCTP, whose checksum is a CRC-32C (RFC 9260, appendix A).
bool finish_crc32c(rte_mbuf& m, uint32_t start) noexcept;

// Computes the checksum of a whole TCP or UDP packet anew. False where it isn't one.
bool make_l4_checksum(rte_mbuf& m, const PacketView& v) noexcept;

// Whether the checksum of a whole TCP or UDP packet holds. Reads all of it.
bool l4_checksum_holds(const rte_mbuf& m, const PacketView& v) noexcept;

// Where the checksum field of a whole TCP or UDP packet lies in its first buffer, else null.
be16* l4_checksum(rte_mbuf& m, const PacketView& v) noexcept;

// Sum of the pseudo-header of a whole TCP or UDP packet. Folded.
uint16_t pseudo_header_sum(const rte_mbuf& m, const PacketView& v) noexcept;

}  // namespace pxio
