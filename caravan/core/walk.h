// SPDX-License-Identifier: BSD-3-Clause
// The one check of a caravan's structure, over whatever holds its bytes: a span, or a chain of
// packet buffers. Nothing of a caravan is used before all of it has been checked. Any thread.
#pragma once
#include "caravan/core/format.h"

namespace caravan {

struct Record {
  uint32_t mark;    // identification or flow label
  uint32_t offset;  // of the UDP header, from the caravan's header
  uint16_t length;  // UDP header and payload
};

struct Records {
  std::array<Record, kMaxDatagrams> at;
  uint8_t count = 0;
  uint8_t ecn = 0;  // as bundled
};

// `read(offset, n, scratch)` returns n contiguous bytes (n <= 16) that lie within `size`; it may
// copy them to `scratch`. `size` is the UDP payload's. `port` is the caravan port.
template <typename Read>
Refusal walk(Read&& read, uint32_t size, Family family, uint16_t port, Records& out) noexcept {
  uint8_t scratch[16];
  const auto mark_len = static_cast<uint32_t>(mark_bytes(family));
  if (size < 4) return Refusal::kShort;
  const uint8_t* p = read(0u, size < sizeof(Header) ? 4u : uint32_t{sizeof(Header)}, scratch);
  if ((p[0] << 8 | p[1]) != kWireMagic) return Refusal::kMagic;
  if (p[2] >> 4 != kWireVersion) return Refusal::kVersion;
  if ((p[2] & 15) != static_cast<uint8_t>(Type::kCaravan)) return Refusal::kType;
  if (size < sizeof(Header)) return Refusal::kShort;
  Header header;
  std::memcpy(&header, p, sizeof header);
  if ((header.flags & ~kEcnMask) != 0 || header.zero != 0) return Refusal::kReserved;
  if (header.count == 0 || header.count > kMaxDatagrams) return Refusal::kCount;
  if (header.length.host() != size - sizeof(Header)) return Refusal::kLength;
  out.count = header.count;
  out.ecn = header.flags & kEcnMask;
  uint32_t at = sizeof(Header);
  for (unsigned i = 0; i < header.count; ++i) {
    if (size - at < mark_len + kUdpBytes) return Refusal::kRecord;
    const uint8_t* r = read(at, mark_len + static_cast<uint32_t>(kUdpBytes), scratch);
    uint32_t mark = 0;
    for (unsigned k = 0; k < mark_len; ++k) mark = mark << 8 | r[k];
    pxio::UdpHeader udp;
    std::memcpy(&udp, r + mark_len, sizeof udp);
    const uint16_t length = udp.len.host();
    at += mark_len;
    if (length < kUdpBytes || length > size - at) return Refusal::kRecord;
    if (udp.dst_port.host() == port || udp.src_port.host() == port) return Refusal::kNested;
    if (family == Family::kIpv6 && mark > kFlowLabelMask) return Refusal::kMark;
    out.at[i] = {mark, at, length};
    at += length;
  }
  return at == size ? Refusal::kNone : Refusal::kRest;
}

}  // namespace caravan
