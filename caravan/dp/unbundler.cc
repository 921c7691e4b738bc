// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/dp/unbundler.h"

#include "caravan/core/hello.h"
#include "caravan/dp/pair.h"

namespace caravan {
namespace {

using pxio::data;
using pxio::PacketView;
using pxio::PktPtr;

// Below this a copy touches no more lines than a second buffer's metadata.
constexpr uint16_t kCopyBelow = 256;

Family family_of(const PacketView& v) { return v.version == 6 ? Family::kIpv6 : Family::kIpv4; }

}  // namespace

void Unbundler::drop(Refusal why) noexcept {
  ++(why == Refusal::kNested ? count_.drop_unbundle_nested
     : why == Refusal::kEcn  ? count_.drop_unbundle_ecn
                             : count_.drop_unbundle_malformed);
}

uint16_t Unbundler::take(PktPtr pkt, const PacketView& v, Out& out) noexcept {
  ++count_.unbundle_in;
  rte_mbuf& m = *pkt;
  const Family family = family_of(v);
  const uint8_t* ip = data(m) + v.l2_len;
  const auto udp = pxio::load<pxio::UdpHeader>(data(m) + v.l4_off());
  const uint32_t length = udp.len.host();
  if (v.why != pxio::Opaque::kNone || v.l3_len != ip_bytes(family) ||
      length != v.ip_len - v.l3_len || length < kUdpBytes || !unicast(ip, v.version == 6)) {
    drop(Refusal::kLength);
    return 0;
  }
  const bool bad = (m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD;
  if (udp.checksum == 0 ? family == Family::kIpv6 : bad) {
    ++count_.drop_unbundle_checksum;
    return 0;
  }
  const uint32_t base = v.l4_off() + static_cast<uint32_t>(kUdpBytes);
  Records records;
  const auto read = [&](uint32_t offset, uint32_t n, uint8_t* scratch) {
    return static_cast<const uint8_t*>(rte_pktmbuf_read(&m, base + offset, n, scratch));
  };
  const Refusal refusal =
      walk(read, length - static_cast<uint32_t>(kUdpBytes), family, limits_.port, records);
  if (refusal != Refusal::kNone) {
    drop(refusal);
    return 0;
  }
  const uint8_t tos =
      family == Family::kIpv4 ? ip[1] : static_cast<uint8_t>(ip[0] << 4 | ip[1] >> 4);
  const int leaves_with = tos_of(tos, records.ecn);
  if (leaves_with < 0) {
    drop(Refusal::kEcn);
    return 0;
  }
  for (uint16_t i = 0; i < records.count; ++i) {
    out[i] = make(m, v, records.at[i], base, static_cast<uint8_t>(leaves_with));
    if (out[i]) continue;
    // All or nothing.
    for (uint16_t k = 0; k < i; ++k) out[k].reset();
    ++count_.drop_unbundle_no_buffer;
    return 0;
  }
  count_.unbundle_out += records.count;
  return records.count;
}

PktPtr Unbundler::make(rte_mbuf& m, const PacketView& v, const Record& r, uint32_t base,
                       uint8_t tos) noexcept {
  const Family family = family_of(v);
  const auto front = static_cast<uint16_t>(v.l2_len + ip_bytes(family));
  const uint32_t at = base + r.offset;
  const auto payload = static_cast<uint16_t>(r.length - kUdpBytes);
  PktPtr p;
  uint8_t* header = nullptr;
  if (payload >= kCopyBelow && limits_.max_segs > 1) {
    PktPtr shared =
        pxio::share_part(m, at + static_cast<uint32_t>(kUdpBytes), payload, buffers_.small);
    if (!shared) return PktPtr();
    if (shared->nb_segs < limits_.max_segs) {
      // The datagram's headers in a buffer of its own, its payload where it is.
      p = pxio::new_packet(buffers_.small);
      if (!p || (header = pxio::extend(*p, static_cast<uint16_t>(front + kUdpBytes))) == nullptr)
        return PktPtr();
      uint8_t scratch[kUdpBytes];
      std::memcpy(header + front, rte_pktmbuf_read(&m, at, kUdpBytes, scratch), kUdpBytes);
      pxio::append(*p, *p, std::move(shared));
    }
  }
  if (!p) {
    p = pxio::copy_part(m, at, r.length, pxio::pool_for(buffers_, uint32_t{front} + r.length));
    if (!p || (header = pxio::prepend(*p, front)) == nullptr) return PktPtr();
  }
  std::memcpy(header, data(m), v.l2_len);
  write_ip_header(data(m) + v.l2_len, family, r, tos, header + v.l2_len);
  return p;
}

}  // namespace caravan
