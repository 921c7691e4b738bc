// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/split.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "pxio/dp/checksum.h"
#include "pxio/dp/plain.h"

namespace pxio {
namespace {

// Reads a chain from front to back.
class Reader {
 public:
  Reader(const rte_mbuf& m, uint32_t offset) : seg_(&m) {
    while (offset > seg_->data_len || (offset == seg_->data_len && seg_->next != nullptr)) {
      offset -= seg_->data_len;
      seg_ = seg_->next;
    }
    off_ = offset;
  }

  // Copies the next `len` bytes to `dst` and returns their sum.
  uint16_t take(uint8_t* dst, uint32_t len) {
    uint64_t sum = 0;
    uint32_t done = 0;
    while (done < len) {
      if (off_ == seg_->data_len) {
        seg_ = seg_->next;
        off_ = 0;
        continue;
      }
      const uint32_t n = std::min<uint32_t>(len - done, seg_->data_len - off_);
      const uint16_t part = copy_and_sum(dst + done, data(*seg_) + off_, n);
      sum += done % 2 != 0 ? swap_odd(part) : part;
      off_ += n;
      done += n;
    }
    return fold(sum);
  }

 private:
  const rte_mbuf* seg_;
  uint32_t off_;
};

// What the headers of all pieces have in common, summed once: all but lengths, IPv4 ID, sequence number,
// offset and flags, and the checksums.
struct Common {
  uint64_t ip = 0, tcp = 0;
};

Common sum_common(const rte_mbuf& m, const PacketView& v) noexcept {
  Common c;
  const auto& tcp = header_at<TcpHeader>(m, v.l4_off());
  c.tcp = sum_words(&tcp, v.l4_len) - tcp.seq.raw() - tcp.off_flags.raw() - tcp.checksum.raw();
  if (v.version == 4) {
    const auto& ip = header_at<Ipv4Header>(m, v.l2_len);
    c.ip = sum_words(&ip, kIpv4HeaderLen) - (uint64_t{ip.total_len.raw()} << 16) - ip.id.raw() -
           (uint64_t{ip.checksum.raw()} << 16);
    c.tcp += pseudo_sum(ip, kProtoTcp, 0);
  } else {
    c.tcp += pseudo_sum(header_at<Ipv6Header>(m, v.l2_len), kProtoTcp, 0);
  }
  return c;
}

void write_headers(rte_mbuf& piece, const PacketView& v, const Common& common, uint32_t seq, uint16_t id,
                   uint16_t off_flags, uint16_t payload, uint16_t payload_sum) noexcept {
  auto& tcp = header_at<TcpHeader>(piece, v.l4_off());
  const be16 l4_len(static_cast<uint16_t>(v.l4_len + payload));
  if (v.version == 4) {
    auto& ip = header_at<Ipv4Header>(piece, v.l2_len);
    ip.total_len = be16(static_cast<uint16_t>(v.l3_len + v.l4_len + payload));
    ip.id = be16(id);
    ip.checksum = be16::from_raw(static_cast<uint16_t>(
        ~fold(common.ip + (uint64_t{ip.total_len.raw()} << 16) + be16(id).raw())));
  } else {
    header_at<Ipv6Header>(piece, v.l2_len).payload_len = l4_len;
  }
  tcp.seq = be32(seq);
  tcp.off_flags = be16(off_flags);
  const uint64_t sum = common.tcp + be32(seq).raw() + be16(off_flags).raw() + l4_len.raw() + payload_sum;
  tcp.checksum = be16::from_raw(static_cast<uint16_t>(~fold(sum)));
}

}  // namespace

SplitResult split(const rte_mbuf& m, const PacketView& v, uint16_t piece, uint16_t n, CwrRule cwr,
                  rte_mempool* pool, rte_mbuf** out) noexcept {
  if (rte_pktmbuf_alloc_bulk(pool, out, n) != 0) return SplitResult::kNoBuffer;
  const uint32_t headers = v.header_len();
  std::array<uint16_t, kMaxSplit> sums;
  Reader payload(m, headers);
  uint64_t total = 0;
  uint32_t left = v.payload_len;
  bool odd = false;
  for (uint16_t i = 0; i < n; ++i) {
    rte_mbuf& p = *out[i];
    const auto len = static_cast<uint16_t>(std::min<uint32_t>(piece, left));
    std::memcpy(data(p), data(m), headers);
    sums[i] = payload.take(data(p) + headers, len);
    total += odd ? swap_odd(sums[i]) : sums[i];
    odd ^= len % 2 != 0;
    left -= len;
    p.data_len = static_cast<uint16_t>(headers + len);
    p.pkt_len = headers + len;
    p.port = m.port;
  }
  const uint32_t l4_len = v.ip_len - v.l3_len;
  const auto& tcp = header_at<TcpHeader>(m, v.l4_off());
  total += sum_words(&tcp, v.l4_len);
  total += v.version == 4 ? pseudo_sum(header_at<Ipv4Header>(m, v.l2_len), kProtoTcp, l4_len)
                          : pseudo_sum(header_at<Ipv6Header>(m, v.l2_len), kProtoTcp, l4_len);
  if (fold(total) != 0xffff) {
    rte_pktmbuf_free_bulk(out, n);
    return SplitResult::kBadChecksum;
  }
  const uint16_t first_id = v.version == 4 ? header_at<Ipv4Header>(m, v.l2_len).id.host() : 0;
  const uint16_t off_flags = tcp.off_flags.host();
  const Common common = sum_common(m, v);
  for (uint16_t i = 0; i < n; ++i) {
    uint16_t flags = off_flags;
    if (i + 1 != n) flags &= static_cast<uint16_t>(~(kPsh | kFin));
    if (i != 0 && cwr == CwrRule::kFirstOnly) flags &= static_cast<uint16_t>(~kCwr);
    const uint32_t seq = v.seq + uint32_t{i} * piece;
    const auto len = static_cast<uint16_t>(out[i]->pkt_len - headers);
    write_headers(*out[i], v, common, seq, static_cast<uint16_t>(first_id + i), flags, len, sums[i]);
  }
  return SplitResult::kDone;
}

namespace {

// Where a packet is parted, in its payload: the new one gets `len` bytes from `at` on, the old one keeps the rest,
// which begins at `rest`.
struct Parting {
  uint32_t at, len, rest;
};

PktPtr part_off(rte_mbuf& m, PacketView& v, const Parting& p, uint16_t segment, rte_mempool* pool,
                PacketView& part) noexcept {
  if (!writable(m)) return PktPtr();
  PktPtr made = new_packet(pool);
  if (!made) return made;
  const uint32_t headers = v.header_len();
  trim_to(m, v.l2_len + v.ip_len);
  const uint8_t* ip = data(m) + v.l2_len;
  const Common common = sum_common(m, v);
  const uint16_t id = v.version == 4 ? header_at<Ipv4Header>(m, v.l2_len).id.host() : 0;
  const uint16_t flags = header_at<TcpHeader>(m, v.l4_off()).off_flags.host();
  // The checksum tells the payload's sum, and so that of the rest.
  const auto all = static_cast<uint16_t>(~fold(header_sum(ip, v.version == 6, v.l3_len, v.l4_len, v.ip_len)));
  std::memcpy(data(*made), data(m), headers);
  const uint16_t sum = Reader(m, headers + p.at).take(data(*made) + headers, p.len);
  made->data_len = static_cast<uint16_t>(headers + p.len);
  made->pkt_len = headers + p.len;
  made->port = m.port;
  made->ol_flags = m.ol_flags;
  made->tso_segsz = segment;
  const auto of = [&](uint32_t begin, uint32_t len) {
    PacketView w = v;
    w.seq = v.seq + begin;
    w.payload_len = static_cast<uint16_t>(len);
    w.ip_len = v.l3_len + v.l4_len + len;
    if (begin + len != v.payload_len) w.flags = static_cast<uint16_t>(w.flags & ~(kPsh | kFin));
    return w;
  };
  const auto write = [&](rte_mbuf& to, const PacketView& w, uint16_t payload_sum) {
    const auto off_flags = static_cast<uint16_t>((flags & 0xf000) | w.flags);
    const auto step = static_cast<uint16_t>((w.seq - v.seq) / segment);
    write_headers(to, w, common, w.seq, static_cast<uint16_t>(id + step), off_flags, w.payload_len, payload_sum);
  };
  part = of(p.at, p.len);
  const PacketView rest = of(p.rest, v.payload_len - p.len);
  if (p.rest != 0) {
    erase(m, static_cast<uint16_t>(headers), p.len);
  } else {
    trim_to(m, headers + rest.payload_len);
  }
  // At an odd offset of the payload a part's bytes count the other way round.
  const uint16_t taken = p.at % 2 != 0 ? swap_odd(sum) : sum;
  const uint16_t left = fold(uint64_t{all} + static_cast<uint16_t>(~taken));
  write(*made, part, sum);
  write(m, rest, p.rest % 2 != 0 ? swap_odd(left) : left);
  v = rest;
  return made;
}

}  // namespace

PktPtr take_front(rte_mbuf& m, PacketView& v, uint32_t len, uint16_t segment, rte_mempool* pool,
                  PacketView& part) noexcept {
  return part_off(m, v, {0, len, len}, segment, pool, part);
}

PktPtr take_back(rte_mbuf& m, PacketView& v, uint32_t len, uint16_t segment, rte_mempool* pool,
                 PacketView& part) noexcept {
  return part_off(m, v, {v.payload_len - len, len, 0}, segment, pool, part);
}

}  // namespace pxio
