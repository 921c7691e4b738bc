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
  Of<const uint8_t*> frame;
  alignas(32) Of<uint64_t> addr;   // FlowKey::addr[0]
  alignas(32) Of<uint64_t> same;   // same_of(), merge_plain.h
  alignas(32) Of<uint32_t> ports;  // FlowKey::ports
  alignas(32) Of<uint32_t> ip_len, seq, ack, tsval, tsecr;
  alignas(32) Of<uint32_t> window_flags;  // the window in the low half, TCP flags in the high one
  alignas(32) Of<uint32_t> sum;           // header_sum()
};

// What stands in one lane, as PlainFields has it. Read where it is used, not copied: there are more fields than
// registers.
class LaneFields {
 public:
  LaneFields(const PlainLanes& l, uint32_t i) noexcept : l_(l), i_(i) {}
  uint64_t same() const { return l_.same[i_]; }
  uint32_t seq() const { return l_.seq[i_]; }
  uint32_t ack() const { return l_.ack[i_]; }
  uint32_t tsval() const { return l_.tsval[i_]; }
  uint32_t tsecr() const { return l_.tsecr[i_]; }
  uint32_t sum() const { return l_.sum[i_]; }
  uint16_t window() const { return static_cast<uint16_t>(l_.window_flags[i_]); }
  uint16_t ip_len() const { return static_cast<uint16_t>(l_.ip_len[i_]); }
  uint16_t payload_len() const { return static_cast<uint16_t>(l_.ip_len[i_] - kIpv4HeaderLen - 32); }
  bool push() const { return (l_.window_flags[i_] & uint32_t{kPsh} << 16) != 0; }

 private:
  const PlainLanes& l_;
  uint32_t i_;
};

// A bit a packet.
struct InLanes {
  uint32_t plain = 0;   // plain segments, by the rules of recognise_inbound()
  uint32_t merged = 0;  // what the port made of such (RTE_MBUF_F_RX_LRO), in one buffer or several
  uint32_t alike = 0;   // as long as the burst's first packet
  // Plain, and going on where the packet before it ends, which is plain: of its flow and length, equal in all that
  // must be to be merged with it but for the MAC addresses, and neither with PSH.
  uint32_t follows = 0;
};

// Fills the lanes of up to kBurst packets; those of packets that the result doesn't name don't
// hold. Brings near both lines of each packet's headers.
using RecogniseLanes = InLanes (*)(rte_mbuf* const* pkts, uint16_t n, PlainLanes& lanes) noexcept;
// The fastest that this processor has; null: none.
RecogniseLanes recognise_lanes() noexcept;

}  // namespace pxio
