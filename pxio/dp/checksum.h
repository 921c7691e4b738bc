// SPDX-License-Identifier: BSD-3-Clause
// Ones' complement arithmetic of the Internet checksum (RFC 1071, RFC 1624). All sums are taken over
// 16-bit words as they lie in memory, never byte-swapped: the arithmetic is the same in either byte
// order (RFC 1071, section 2 B), and a folded result is stored as it is with be16::from_raw. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "pxio/dp/wire.h"

namespace pxio {

// Folds a sum of many words to one word.
constexpr uint16_t fold(uint64_t sum) {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

// A sum of bytes that began at an odd offset of the data it belongs to (RFC 1071, section 2 B).
constexpr uint16_t swap_odd(uint16_t sum) { return static_cast<uint16_t>(sum << 8 | sum >> 8); }

// Sum of `len` bytes from `data`; an odd last byte is padded with zero. Folded.
uint16_t sum_bytes(const void* data, size_t len) noexcept;

// Copies `len` bytes and returns their sum, reading them once. The areas don't overlap.
uint16_t copy_and_sum(void* dst, const void* src, size_t len) noexcept;

// Sum of a header: `len` is a multiple of 4 and at most 60. Not folded.
inline uint64_t sum_words(const void* data, size_t len) {
  uint64_t sum = 0;
  const auto* p = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < len; i += 4) {
    uint32_t w;
    std::memcpy(&w, p + i, 4);
    sum += w;
  }
  return sum;
}

// Pseudo-header of a TCP, UDP or ICMPv6 message of `l4_len` bytes (RFC 9293, 8200). Not folded.
inline uint64_t pseudo_sum(const Ipv4Header& ip, uint8_t proto, uint32_t l4_len) {
  return sum_words(&ip.src, 8) + be16(static_cast<uint16_t>(l4_len)).raw() +
         be16(proto).raw();
}
inline uint64_t pseudo_sum(const Ipv6Header& ip, uint8_t proto, uint32_t l4_len) {
  return sum_words(ip.src, 32) + be32(l4_len).raw() + be16(proto).raw();
}

// Replaces `from` by `to` in what `checksum` covers (RFC 1624, equation 3). A checksum that was wrong
// stays wrong by as much.
inline be16 update_checksum(be16 checksum, uint16_t from_raw, uint16_t to_raw) {
  const uint64_t sum = static_cast<uint16_t>(~checksum.raw()) + uint64_t{static_cast<uint16_t>(~from_raw)} + to_raw;
  return be16::from_raw(static_cast<uint16_t>(~fold(sum)));
}

// Whether the header's own checksum holds.
inline bool ipv4_header_ok(const Ipv4Header& ip) {
  return fold(sum_words(&ip, ip.ihl_bytes())) == 0xffff;
}

// Makes the header's checksum right.
inline void set_ipv4_checksum(Ipv4Header& ip) {
  ip.checksum = be16(0);
  ip.checksum = be16::from_raw(static_cast<uint16_t>(~fold(sum_words(&ip, ip.ihl_bytes()))));
}

}  // namespace pxio
