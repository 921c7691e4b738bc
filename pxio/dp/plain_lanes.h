// SPDX-License-Identifier: BSD-3-Clause
// The commonest plain segments of a burst (plain.h: Ethernet without tags, IPv4, timestamps),
// recognised eight at a time: headers are transposed, so that one vector holds one field of eight
// packets, and what merging compares and sums is made for all of them at once. Worker threads.
#pragma once
#include <array>
#include <cstdint>

#include "pxio/dp/plain.h"
#include "pxio/dp/units.h"

namespace pxio {

// Fields of each packet of a burst, in host order where nothing else is said.
struct PlainLanes {
  template <typename T>
  using Of = std::array<T, kBurst>;
  alignas(32) Of<uint32_t> src, dst, ports;  // as they lie in memory
  alignas(32) Of<uint32_t> ip_len, seq, ack, tsval, tsecr;
  alignas(32) Of<uint32_t> window_flags;  // the window in the low half, TCP flags in the high one
  alignas(32) Of<uint32_t> same_l3, same_l4;  // both halves of same_of(), merge_plain.h
  alignas(32) Of<uint32_t> sum;               // header_sum()
};

// A bit a packet.
struct InLanes {
  uint32_t plain = 0;   // plain segments, by the rules of recognise_inbound()
  uint32_t merged = 0;  // what the port made of such (RTE_MBUF_F_RX_LRO), in one buffer or several
};

// Fills the lanes of up to kBurst packets; those of packets that the result doesn't name don't
// hold.
using RecogniseLanes = InLanes (*)(rte_mbuf* const* pkts, uint16_t n, PlainLanes& lanes) noexcept;
// The fastest that this processor has; null: none.
RecogniseLanes recognise_lanes() noexcept;

}  // namespace pxio
