// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/finish_checksum.h"

#include <rte_hash_crc.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "pxio/dp/checksum.h"
#include "pxio/dp/pkt.h"

namespace pxio {
namespace {

// Calls f(bytes, n) for each contiguous part of [offset, offset + len).
template <typename F>
void for_parts(const rte_mbuf& m, uint32_t offset, uint32_t len, F f) {
  const rte_mbuf* seg = &m;
  while (seg != nullptr && offset >= seg->data_len) {
    offset -= seg->data_len;
    seg = seg->next;
  }
  for (; seg != nullptr && len != 0; seg = seg->next, offset = 0) {
    const uint32_t n = std::min<uint32_t>(len, seg->data_len - offset);
    f(data(*seg) + offset, n);
    len -= n;
  }
}

}  // namespace

uint16_t sum_packet(const rte_mbuf& m, uint32_t offset, uint32_t len) noexcept {
  uint64_t sum = 0;
  bool odd = false;
  for_parts(m, offset, len, [&](const uint8_t* p, uint32_t n) {
    const uint16_t part = sum_bytes(p, n);
    sum += odd ? swap_odd(part) : part;
    odd ^= (n & 1) != 0;
  });
  return fold(sum);
}

namespace {

// rte_hash_crc() wants its data aligned.
uint32_t add_crc32c(uint32_t crc, const uint8_t* p, uint32_t n) {
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    crc = rte_hash_crc_8byte(word, crc);
  }
  for (; n != 0; --n, ++p) crc = rte_hash_crc_1byte(*p, crc);
  return crc;
}

// In UDP zero means that there is none (RFC 768).
be16 from_sum(uint16_t sum, bool udp) {
  sum = static_cast<uint16_t>(~sum);
  return be16::from_raw(sum == 0 && udp ? 0xffff : sum);
}

}  // namespace

bool finish_checksum(rte_mbuf& m, uint32_t start, uint32_t offset) noexcept {
  if (start + offset + sizeof(be16) > m.data_len) return false;
  header_at<be16>(m, start + offset) =
      from_sum(sum_packet(m, start, m.pkt_len - start), offset == offsetof(UdpHeader, checksum));
  return true;
}

bool make_l4_checksum(rte_mbuf& m, const PacketView& v) noexcept {
  be16* field = l4_checksum(m, v);
  if (field == nullptr) return false;
  *field = be16::from_raw(pseudo_header_sum(m, v));
  *field = from_sum(sum_packet(m, v.l4_off(), v.ip_len - v.l3_len), v.kind == Kind::kUdp);
  return true;
}

bool finish_crc32c(rte_mbuf& m, uint32_t start) noexcept {
  constexpr uint32_t kOffset = 8;
  if (start + kOffset + sizeof(uint32_t) > m.data_len) return false;
  uint8_t* field = data(m) + start + kOffset;
  std::memset(field, 0, sizeof(uint32_t));
  uint32_t crc = 0xffffffff;
  for_parts(m, start, m.pkt_len - start,
            [&](const uint8_t* p, uint32_t n) { crc = add_crc32c(crc, p, n); });
  crc = ~crc;
  std::memcpy(field, &crc, sizeof crc);  // the polynomial is reflected: least significant byte first
  return true;
}

be16* l4_checksum(rte_mbuf& m, const PacketView& v) noexcept {
  size_t offset = 0;
  if (v.has_flow()) {
    offset = offsetof(TcpHeader, checksum);
  } else if (v.kind == Kind::kUdp) {
    offset = offsetof(UdpHeader, checksum);
  } else {
    return nullptr;
  }
  if (v.l4_off() + offset + sizeof(be16) > m.data_len || v.l2_len + v.ip_len > m.pkt_len) return nullptr;
  return &header_at<be16>(m, v.l4_off() + offset);
}

uint16_t pseudo_header_sum(const rte_mbuf& m, const PacketView& v) noexcept {
  const uint32_t len = v.ip_len - v.l3_len;
  return fold(v.version == 4 ? pseudo_sum(header_at<Ipv4Header>(m, v.l2_len), v.proto, len)
                             : pseudo_sum(header_at<Ipv6Header>(m, v.l2_len), v.proto, len));
}

bool l4_checksum_holds(const rte_mbuf& m, const PacketView& v) noexcept {
  const uint16_t sum = sum_packet(m, v.l4_off(), v.ip_len - v.l3_len);
  return fold(uint64_t{pseudo_header_sum(m, v)} + sum) == 0xffff;
}

}  // namespace pxio
