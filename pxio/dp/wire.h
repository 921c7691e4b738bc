// SPDX-License-Identifier: BSD-3-Clause
// Headers as they stand on the wire. All types have alignment 1, so that they may lie anywhere in a
// buffer, and multi-byte fields are be16/be32, whose only way out is host(). Any thread.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

namespace pxio {

struct be16 {
  uint8_t bytes[2];
  constexpr be16() = default;
  constexpr be16(uint16_t host_order)
      : bytes{static_cast<uint8_t>(host_order >> 8), static_cast<uint8_t>(host_order)} {}
  uint16_t host() const { return __builtin_bswap16(raw()); }
  // The two bytes as they lie in memory: what ones' complement sums add up.
  uint16_t raw() const {
    uint16_t v;
    std::memcpy(&v, bytes, sizeof v);
    return v;
  }
  static be16 from_raw(uint16_t v) {
    be16 r;
    std::memcpy(r.bytes, &v, sizeof v);
    return r;
  }
  bool operator==(const be16&) const = default;
};

struct be32 {
  uint8_t bytes[4];
  constexpr be32() = default;
  constexpr be32(uint32_t h)
      : bytes{static_cast<uint8_t>(h >> 24), static_cast<uint8_t>(h >> 16),
              static_cast<uint8_t>(h >> 8), static_cast<uint8_t>(h)} {}
  uint32_t host() const { return __builtin_bswap32(raw()); }
  uint32_t raw() const {
    uint32_t v;
    std::memcpy(&v, bytes, sizeof v);
    return v;
  }
  bool operator==(const be32&) const = default;
};

static_assert(std::endian::native == std::endian::little, "host() swaps");
static_assert(sizeof(be16) == 2 && alignof(be16) == 1 && sizeof(be32) == 4 && alignof(be32) == 1);

// What lies at an address of any alignment.
template <typename T>
inline T load(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

struct EthernetHeader {
  uint8_t dst[6], src[6];
  be16 type;
};

struct VlanTag {  // follows the addresses or another tag: the TPID stands in the type field before
  be16 tci;
  be16 type;
};

struct Ipv4Header {  // RFC 791
  uint8_t version_ihl;
  uint8_t tos;
  be16 total_len;
  be16 id;
  be16 frag;  // flags and offset
  uint8_t ttl;
  uint8_t proto;
  be16 checksum;
  be32 src, dst;
  unsigned ihl_bytes() const { return (version_ihl & 15u) * 4; }
};

struct Ipv6Header {  // RFC 8200
  be32 version_class_flow;
  be16 payload_len;
  uint8_t next;
  uint8_t hop_limit;
  uint8_t src[16], dst[16];
};

struct TcpHeader {  // RFC 9293
  be16 src_port, dst_port;
  be32 seq, ack;
  be16 off_flags;  // data offset, then 3 reserved bits, AE and the eight classic flags
  be16 window;
  be16 checksum;
  be16 urgent;
  unsigned len() const { return (off_flags.bytes[0] >> 4) * 4u; }
  uint16_t flags() const { return off_flags.host() & 0x0fff; }
};

struct UdpHeader {  // RFC 768
  be16 src_port, dst_port, len, checksum;
};

struct IcmpHeader {  // RFC 792, RFC 4443
  uint8_t type, code;
  be16 checksum;
  be32 rest;
};

static_assert(sizeof(EthernetHeader) == 14 && sizeof(Ipv4Header) == 20 && sizeof(Ipv6Header) == 40);
static_assert(sizeof(TcpHeader) == 20 && alignof(TcpHeader) == 1 && alignof(Ipv6Header) == 1);

inline constexpr uint16_t kEtherIpv4 = 0x0800, kEtherIpv6 = 0x86dd;
inline constexpr uint16_t kEtherVlan = 0x8100, kEtherQinq = 0x88a8, kEtherQinqOld = 0x9100;
constexpr bool is_vlan(uint16_t type) {
  return type == kEtherVlan || type == kEtherQinq || type == kEtherQinqOld;
}
inline constexpr uint8_t kProtoHopByHop = 0, kProtoIcmp = 1, kProtoTcp = 6, kProtoUdp = 17,
                         kProtoRouting = 43, kProtoFragment = 44, kProtoEsp = 50, kProtoAh = 51,
                         kProtoIcmpv6 = 58, kProtoNone = 59, kProtoDestOptions = 60;
inline constexpr uint16_t kIpDf = 0x4000, kIpMf = 0x2000, kIpReserved = 0x8000,
                          kIpOffsetMask = 0x1fff;
// Of IPv6's fragment header (RFC 8200, section 4.5), in bytes.
inline constexpr uint16_t kIpv6OffsetMask = 0xfff8;

// TCP flags, and AE (RFC 9768) beside them; the bits of kTcpReserved are still unassigned.
inline constexpr uint16_t kFin = 0x001, kSyn = 0x002, kRst = 0x004, kPsh = 0x008, kAck = 0x010,
                          kUrg = 0x020, kEce = 0x040, kCwr = 0x080, kAe = 0x100,
                          kTcpReserved = 0xe00;

inline constexpr unsigned kIpv4HeaderLen = 20, kIpv6HeaderLen = 40, kIpv6FragmentHeaderLen = 8, kTcpHeaderLen = 20;

// Whether sequence number a lies before b (RFC 9293, section 3.4: modulo 2^32).
constexpr bool seq_before(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

}  // namespace pxio
