// SPDX-License-Identifier: BSD-3-Clause
// One packet, parsed once and validated once: every module takes its offsets and lengths from here and
// none reads a length field again. Lengths come from IP, never from the frame: what the frame has
// beyond them is Ethernet padding. Worker threads.
#pragma once
#include <rte_mbuf.h>

#include <cstdint>

#include "pxio/dp/units.h"
#include "pxio/dp/wire.h"

namespace pxio {

enum class Link : uint8_t { kEthernet, kRawIp };

enum class Kind : uint8_t {
  kNonIp,      // no IP header that could be read
  kOtherIp,    // whole IP packet of another protocol, or one whose protocol can't be reached
  kFragment,   // IPv4 fragment, or IPv6 with a fragment header (even an atomic one, RFC 6946)
  kUdp,        // whole UDP datagram
  kIcmp,       // whole ICMP or ICMPv6 message
  kTcp,        // whole TCP segment without IP options or extension headers: may be translated
  kTcpOpaque,  // TCP whose ports can be read, but which must pass as it is; `why` says why
};

// Why a packet of kind kTcpOpaque, kFragment, kNonIp or kOtherIp can't be translated.
enum class Opaque : uint8_t {
  kNone,
  kNotIp,
  kNotTcp,
  kFragment,
  kIpOptions,      // IPv4 options or IPv6 extension headers
  kIpChecksum,     // the IPv4 header checksum doesn't hold
  kCutShort,       // the frame is shorter than IP says: cut by a capture, or on the way
  kLengths,        // header lengths that contradict each other
};

struct PacketView {
  Kind kind = Kind::kNonIp;
  Opaque why = Opaque::kNone;
  uint8_t version = 0;       // 4 or 6; 0: not IP
  uint8_t proto = 0;         // upper protocol, behind any extension headers
  uint8_t l2_len = 0;        // Ethernet and up to two VLAN tags
  uint8_t vlan_tags = 0;
  uint8_t l4_len = 0;        // TCP header with options
  uint8_t ts_off = 0;        // offset of TSval from the start of the TCP header, 0: none
  uint16_t l3_len = 0;       // IP header with options or extension headers
  uint16_t payload_len = 0;  // bytes of TCP payload as IP has it, also for kTcpOpaque where it is known
  uint32_t ip_len = 0;       // whole IP packet: header and all behind it
  // TCP only:
  uint16_t flags = 0;
  uint16_t window = 0;
  uint32_t seq = 0, ack = 0;
  uint32_t tsval = 0, tsecr = 0;
  uint8_t mss_off = 0;       // of the first MSS option's value from the TCP header's start
  bool signed_ = false, mptcp = false, bad_options = false;

  bool has_flow() const { return kind == Kind::kTcp || kind == Kind::kTcpOpaque; }
  uint32_t l4_off() const { return uint32_t{l2_len} + l3_len; }
  uint32_t header_len() const { return l4_off() + l4_len; }
  // Sequence number behind the segment: SYN and FIN take one each.
  uint32_t seq_end() const {
    return seq + payload_len + ((flags & kSyn) != 0) + ((flags & kFin) != 0);
  }
};

// Parses the packet; headers spread over several buffers are pulled together first. Never reads
// outside the packet.
PacketView parse(rte_mbuf& m, Link link) noexcept;

}  // namespace pxio
