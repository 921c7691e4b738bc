// SPDX-License-Identifier: BSD-3-Clause
// PX-caravan as docs/caravan-format.md has it: constants, headers and why a caravan is refused. Any
// thread; no sockets, no DPDK.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pxio/dp/wire.h"

namespace caravan {

using pxio::be16;
using pxio::be32;
using Bytes = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;

enum class Family : uint8_t { kIpv4 = 4, kIpv6 = 6 };

// Network byte order; an IPv4 address stands in the first 4 bytes, the rest is 0.
struct Address {
  Family family = Family::kIpv4;
  std::array<uint8_t, 16> bytes{};
  friend bool operator==(const Address&, const Address&) = default;
};

inline constexpr uint16_t kDefaultPort = 7475;
inline constexpr uint16_t kWireMagic = 0x5058;  // "PX"
inline constexpr uint8_t kWireVersion = 1;

enum class Type : uint8_t { kCaravan = 0, kHello = 1, kAnswer = 2 };

// Stands behind the outer UDP header. Then the records, one after another, no padding: a mark, the
// datagram's own UDP header and its payload.
struct Header {
  be16 magic;
  uint8_t version_type;  // high and low nibble
  uint8_t flags;         // bits 0-1: the datagrams' ECN field as it was bundled; the rest is 0
  uint8_t count;         // records, 1 ... kMaxDatagrams
  uint8_t zero;
  be16 length;  // bytes of all records
};
static_assert(sizeof(Header) == 8 && alignof(Header) == 1);

inline constexpr size_t kUdpBytes = sizeof(pxio::UdpHeader);
inline constexpr size_t kMaxDatagrams = 64;
inline constexpr uint8_t kEcnMask = 3;

// What each datagram's IP header had for itself: identification on IPv4, flow label on IPv6 (20
// bits).
constexpr size_t mark_bytes(Family f) { return f == Family::kIpv4 ? 2 : 4; }
constexpr size_t ip_bytes(Family f) { return f == Family::kIpv4 ? 20 : 40; }
// What the first record's UDP header has before it in the caravan beyond what it had in its own
// packet.
constexpr size_t front_bytes(Family f) { return kUdpBytes + sizeof(Header) + mark_bytes(f); }
inline constexpr uint32_t kFlowLabelMask = 0xfffff;

// Of IP packets that are caravans. The least that a host may say it takes holds two DNS answers.
inline constexpr uint16_t kLeastSize = 1280;

// Why a caravan is refused, the whole of it.
enum class Refusal : uint8_t {
  kNone,
  kShort,     // no room for the header and one record
  kMagic,     // not ours
  kVersion,   // of another version
  kType,      // a message, not a caravan, or of unknown type
  kReserved,  // bits that must be 0 are not
  kCount,     // no datagram, or more than kMaxDatagrams
  kLength,    // the header's length isn't that of the datagram
  kRecord,    // a record ends outside, or its UDP length is below 8
  kRest,      // bytes are left behind the last record
  kNested,    // a datagram from or to the caravan port
  kMark,      // a flow label of more than 20 bits
  kEcn,       // a congestion mark on datagrams that can't bear one (RFC 6040, section 4.2)
};
const char* name_of(Refusal r);

// RFC 6040, section 4.2, figure 4: the ECN field that leaves, where the datagrams had `inner` and
// the caravan arrived with `outer`; negative: drop.
constexpr int decapsulated_ecn(uint8_t inner, uint8_t outer) {
  constexpr int8_t kTable[4][4] = {
      // outer: Not-ECT, ECT(1), ECT(0), CE
      {0, 0, 0, -1},  // Not-ECT
      {1, 1, 1, 3},   // ECT(1)
      {2, 1, 2, 3},   // ECT(0)
      {3, 3, 3, 3},   // CE
  };
  return kTable[inner & kEcnMask][outer & kEcnMask];
}

// Outer source port of caravans between two addresses, given as they lie in an IP header: the same for
// all of them, so that none overtakes another on another path or queue, whatever flows are in it; and of
// the dynamic range (RFC 6335, section 6; RFC 7605 asks for no more than entropy).
inline uint16_t source_port(Family f, const uint8_t* addresses) {
  uint32_t sum = 0;
  for (unsigned i = 0; i < (f == Family::kIpv4 ? 8u : 32u); i += 4) sum += pxio::load<be32>(addresses + i).host();
  return static_cast<uint16_t>(0xc000 | sum * 0x9e3779b1u >> 18);
}

// The pseudo-header of a UDP datagram of `length` bytes (RFC 768; RFC 8200, section 8.1). Not
// folded.
inline uint64_t pseudo_sum(Family f, const uint8_t* src, const uint8_t* dst, uint16_t length) {
  const unsigned n = f == Family::kIpv4 ? 4 : 16;
  uint64_t sum = uint64_t{be16(length).raw()} + be16(pxio::kProtoUdp).raw();
  for (unsigned i = 0; i < n; i += 4)
    sum += uint64_t{pxio::load<uint32_t>(src + i)} + pxio::load<uint32_t>(dst + i);
  return sum;
}

}  // namespace caravan
