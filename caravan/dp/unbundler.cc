// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/dp/unbundler.h"

#include <algorithm>

#include "caravan/dp/pair.h"
#include "pxio/dp/checksum.h"

namespace caravan {
namespace {

using pxio::data;
using pxio::PacketView;
using pxio::PktPtr;

// Below this a copy touches no more lines than a second buffer's metadata.
constexpr uint16_t kCopyBelow = 256;

Family family_of(const PacketView& v) { return v.version == 6 ? Family::kIpv6 : Family::kIpv4; }

// Loads the lines at which the records begin if they are of one size, as most are: what walks them finds the
// next one only by the one before it, and would wait for each.
void touch_records(const uint8_t* payload, uint32_t size, Family family) {
  constexpr uint32_t kHeader = sizeof(Header);
  const auto mark_len = static_cast<uint32_t>(mark_bytes(family));
  if (size < kHeader + mark_len + kUdpBytes) return;
  const uint32_t step = mark_len + pxio::load<be16>(payload + kHeader + mark_len + 4).host();
  unsigned left = std::min<unsigned>(payload[4], kMaxDatagrams);
  for (uint32_t at = kHeader + step; left > 1 && step > kUdpBytes && at < size; at += step, --left)
    asm volatile("" : : "r"(payload[at]));
}

}  // namespace

// Link and IP header of a caravan's datagrams, but for what each has for itself.
struct Unbundler::Front {
  // Beyond the headers: so much is copied, at once, to each packet, whose buffer is larger.
  alignas(16) std::array<uint8_t, 64> bytes{};
  uint64_t sum = 0;  // IPv4, of the header without length, identification and checksum
  uint32_t first_word = 0;  // IPv6, without the flow label
  uint8_t l2_len, length;
  Family family;

  Front(const uint8_t* p, const PacketView& v, uint8_t tos)
      : l2_len(v.l2_len), length(static_cast<uint8_t>(v.l2_len + ip_bytes(family_of(v)))), family(family_of(v)) {
    static_assert(2 * sizeof(pxio::VlanTag) + sizeof(pxio::EthernetHeader) + pxio::kIpv6HeaderLen <= 64);
    std::memcpy(bytes.data(), p, length);
    uint8_t* ip = bytes.data() + l2_len;
    if (family == Family::kIpv4) {
      auto& v4 = *reinterpret_cast<pxio::Ipv4Header*>(ip);
      v4.tos = tos;
      v4.total_len = v4.id = v4.checksum = be16(0);
      sum = pxio::sum_words(ip, pxio::kIpv4HeaderLen);
    } else {
      first_word = 6u << 28 | uint32_t{tos} << 20;
    }
  }
  // Writes the headers of a record's datagram.
  void write(uint8_t* to, const Record& r) const noexcept {
    std::memcpy(to, bytes.data(), bytes.size());
    uint8_t* ip = to + l2_len;
    if (family == Family::kIpv4) {
      auto& v4 = *reinterpret_cast<pxio::Ipv4Header*>(ip);
      v4.total_len = be16(static_cast<uint16_t>(pxio::kIpv4HeaderLen + r.length));
      v4.id = be16(static_cast<uint16_t>(r.mark));
      v4.checksum = be16::from_raw(static_cast<uint16_t>(~pxio::fold(sum + v4.total_len.raw() + v4.id.raw())));
    } else {
      auto& v6 = *reinterpret_cast<pxio::Ipv6Header*>(ip);
      v6.version_class_flow = be32(first_word | r.mark);
      v6.payload_len = be16(r.length);
    }
  }
};

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
  const uint32_t size = length - static_cast<uint32_t>(kUdpBytes);
  Records records;
  Refusal refusal;
  if (m.nb_segs == 1) {
    const uint8_t* payload = data(m) + base;
    touch_records(payload, size, family);
    refusal = walk([payload](uint32_t offset, uint32_t, uint8_t*) { return payload + offset; }, size, family,
                   limits_.port, records);
  } else {
    const auto read = [&](uint32_t offset, uint32_t n, uint8_t* scratch) {
      return static_cast<const uint8_t*>(rte_pktmbuf_read(&m, base + offset, n, scratch));
    };
    refusal = walk(read, size, family, limits_.port, records);
  }
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
  const Front front(data(m), v, static_cast<uint8_t>(leaves_with));
  const bool done = limits_.max_segs > 1 && pxio::one_buffer(m) ? take_one_buffer(pkt, records, front, base, out)
                                                                : take_chain(m, records, front, base, out);
  if (!done) {
    ++count_.drop_unbundle_no_buffer;
    return 0;
  }
  count_.unbundle_out += records.count;
  return records.count;
}

// All buffers are taken at once. Each datagram has its headers in a buffer of its own, and its payload, if it
// isn't short, where it is.
bool Unbundler::take_one_buffer(PktPtr& pkt, const Records& records, const Front& front, uint32_t base,
                                Out& out) noexcept {
  uint16_t n = records.count, shared = 0;
  for (uint16_t i = 0; i < records.count; ++i) shared += records.at[i].length >= kUdpBytes + kCopyBelow;
  n = static_cast<uint16_t>(n + shared);
  std::array<rte_mbuf*, 2 * kMaxDatagrams> fresh;
  if (!pxio::new_packets(buffers_.small, fresh.data(), n)) return false;
  rte_mbuf& whole = *pkt;
  const uint8_t* payload = data(whole) + base;
  const auto headers = static_cast<uint16_t>(front.length + kUdpBytes);
  rte_mbuf** next = fresh.data();
  for (uint16_t i = 0; i < records.count; ++i) {
    const Record& r = records.at[i];
    rte_mbuf& p = **next++;
    front.write(data(p), r);
    const auto rest = static_cast<uint16_t>(r.length - kUdpBytes);
    if (rest >= kCopyBelow) {
      std::memcpy(data(p) + front.length, payload + r.offset, kUdpBytes);
      pxio::extend(p, headers);
      rte_mbuf& view = **next++;
      pxio::view_part(view, whole, static_cast<uint16_t>(base + r.offset + kUdpBytes), rest);
      pxio::append(p, p, PktPtr(&view));
    } else {
      std::memcpy(data(p) + front.length, payload + r.offset, r.length);
      pxio::extend(p, static_cast<uint16_t>(front.length + r.length));
    }
    out[i] = &p;
  }
  // The caravan's own reference goes over to the last of its views.
  if (shared != 0) pxio::share_buffer(*pkt.release(), static_cast<uint16_t>(shared - 1));
  return true;
}

bool Unbundler::take_chain(rte_mbuf& m, const Records& records, const Front& front, uint32_t base, Out& out) noexcept {
  for (uint16_t i = 0; i < records.count; ++i) {
    out[i] = make(m, records.at[i], front, base).release();
    if (out[i] != nullptr) continue;
    for (uint16_t k = 0; k < i; ++k) PktPtr(out[k]).reset();  // all or nothing
    return false;
  }
  return true;
}

PktPtr Unbundler::make(rte_mbuf& m, const Record& r, const Front& front, uint32_t base) noexcept {
  const uint32_t at = base + r.offset;
  const auto payload = static_cast<uint16_t>(r.length - kUdpBytes);
  const uint16_t length = front.length;
  PktPtr p;
  uint8_t* header = nullptr;
  if (payload >= kCopyBelow && limits_.max_segs > 1) {
    PktPtr shared =
        pxio::share_part(m, at + static_cast<uint32_t>(kUdpBytes), payload, buffers_.small);
    if (!shared) return PktPtr();
    if (shared->nb_segs < limits_.max_segs) {
      p = pxio::new_packet(buffers_.small);
      if (!p || (header = pxio::extend(*p, static_cast<uint16_t>(length + kUdpBytes))) == nullptr) return PktPtr();
      front.write(header, r);
      uint8_t scratch[kUdpBytes];
      std::memcpy(header + length, rte_pktmbuf_read(&m, at, kUdpBytes, scratch), kUdpBytes);
      pxio::append(*p, *p, std::move(shared));
      return p;
    }
  }
  p = pxio::copy_part(m, at, r.length, pxio::pool_for(buffers_, uint32_t{length} + r.length));
  if (!p || (header = pxio::prepend(*p, length)) == nullptr) return PktPtr();
  std::array<uint8_t, sizeof front.bytes> headers;
  front.write(headers.data(), r);
  std::memcpy(header, headers.data(), length);
  return p;
}

}  // namespace caravan
