// SPDX-License-Identifier: BSD-3-Clause
// Bundling and unbundling over plain bytes, for programs that embed caravans: UDP payloads for
// those that have a socket, whole IP packets for those that have a TUN device. Nothing is
// allocated. Any thread.
#pragma once
#include "caravan/core/walk.h"

namespace caravan {

// One datagram. `mark`: IPv4's identification or IPv6's flow label; a program that has none puts 0.
struct Datagram {
  uint32_t mark = 0;
  Bytes udp;  // UDP header and payload; its checksum is never looked at
};

// Writes the caravan (its header and records, the payload of the outer UDP datagram) to `out`.
// `ecn`: the field that all of the datagrams have. Returns its length; 0: no datagram, too many, no
// room, one whose UDP length isn't its own or that has the caravan port.
size_t bundle(std::span<const Datagram> datagrams, Family family, uint8_t ecn, uint16_t port,
              MutableBytes out);

// Takes the payload of an outer UDP datagram apart; `out.at[i].offset` points into `payload`.
Refusal unbundle(Bytes payload, Family family, uint16_t port, Records& out);

// The datagram of a record.
inline Datagram datagram_of(Bytes payload, const Record& r) {
  return {r.mark, payload.subspan(r.offset, r.length)};
}

// An IP packet that is one whole UDP datagram without options or extension headers, whose lengths
// agree and whose IPv4 header checksum holds: what may be bundled as far as its form goes.
struct UdpPacket {
  Family family = Family::kIpv4;
  const uint8_t* ip = nullptr;
  Datagram datagram;
  uint16_t src_port = 0, dst_port = 0,
           checksum = 0;  // host order; the checksum as it lies in memory
  uint8_t tos = 0;
  Address src() const { return address(family == Family::kIpv4 ? 12 : 8); }
  Address dst() const { return address(family == Family::kIpv4 ? 16 : 24); }

 private:
  Address address(size_t at) const {
    Address a{family, {}};
    std::memcpy(a.bytes.data(), ip + at, family == Family::kIpv4 ? 4 : 16);
    return a;
  }
};
// False: it isn't such a packet. Bytes behind the IP packet are padding.
bool parse_udp(Bytes packet, UdpPacket& out);
// Whether the UDP checksum holds; true where there is none on IPv4, false where there is none on
// IPv6.
bool checksum_ok(const UdpPacket& p);

// Whether two datagrams may share a caravan: addresses, TOS or class, TTL or hop limit, DF.
bool may_share(const UdpPacket& a, const UdpPacket& b);

// Writes the IP packet that carries `packets` (all of which may share) to `out`. Its UDP checksum
// is 0 on IPv4; on IPv6 it follows from the datagrams' own, which must be right. Returns its
// length, 0 as bundle().
size_t bundle_packet(std::span<const UdpPacket> packets, uint16_t port, MutableBytes out);

// Writes the IP header of a record's datagram, whose caravan came with the IP header at `outer`;
// `tos` as it shall leave. Returns its length, 20 or 40; `out` has as much room.
size_t write_ip_header(const uint8_t* outer, Family family, const Record& r, uint8_t tos,
                       uint8_t* out);

// The TOS or traffic class of the datagrams of a caravan that came with `tos`; negative: drop it.
constexpr int tos_of(uint8_t tos, uint8_t bundled_ecn) {
  const int ecn = decapsulated_ecn(bundled_ecn, tos & kEcnMask);
  return ecn < 0 ? ecn : (tos & ~kEcnMask) | ecn;
}

}  // namespace caravan
