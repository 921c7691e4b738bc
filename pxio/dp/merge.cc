// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/merge.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "pxio/dp/checksum.h"

namespace pxio {
namespace {

// A flow that has sent this many full segments back to back is in bulk transfer.
constexpr uint8_t kBulkThreshold = 2, kBulkMax = 15;
// Below this no segment counts as full: MSS 536 less the longest options leaves 496.
constexpr uint16_t kLeastFull = 496;
constexpr uint8_t kSmallRun = 16;
// Buffers held at most, for each slot: a jumbo of six segments takes six, most slots hold fewer.
constexpr uint32_t kBuffersPerSlot = 4;

constexpr std::array<uint64_t Counters::*, 14> kEndCounter = {
    nullptr,
    &Counters::merge_end_full,     &Counters::merge_end_push,    &Counters::merge_end_gap,
    &Counters::merge_end_flags,    &Counters::merge_end_options, &Counters::merge_end_headers,
    &Counters::merge_end_backward, &Counters::merge_end_checksum, &Counters::merge_end_segs,
    &Counters::merge_end_burst,    &Counters::merge_end_hold,    &Counters::merge_end_other,
    &Counters::merge_end_drain,
};

uint32_t to_micros(Nanos t) { return static_cast<uint32_t>(t.count() >> 10); }

// Sum of the payload, from the checksum that covers it: what makes the whole segment zero.
uint16_t payload_sum(const rte_mbuf& m, const PacketView& v) {
  const uint32_t l4_len = v.ip_len - v.l3_len;
  const uint64_t pseudo =
      v.version == 4 ? pseudo_sum(header_at<Ipv4Header>(m, v.l2_len), kProtoTcp, l4_len)
                     : pseudo_sum(header_at<Ipv6Header>(m, v.l2_len), kProtoTcp, l4_len);
  return static_cast<uint16_t>(~fold(pseudo + sum_words(data(m) + v.l4_off(), v.l4_len)));
}

bool options_equal(const uint8_t* a, const uint8_t* b, unsigned len, unsigned ts_off) {
  if (ts_off == 0) return std::memcmp(a + kTcpHeaderLen, b + kTcpHeaderLen, len - kTcpHeaderLen) == 0;
  return std::memcmp(a + kTcpHeaderLen, b + kTcpHeaderLen, ts_off - kTcpHeaderLen) == 0 &&
         std::memcmp(a + ts_off + 8, b + ts_off + 8, len - ts_off - 8) == 0;
}

}  // namespace

Merger::Merger(FlowTable& flows, uint32_t slots, Limits limits, Sink sink, Counters& counters)
    : flows_(flows), limits_(limits), sink_(sink), count_(counters),
      holds_(std::make_unique<Hold[]>(size_t{slots} + 1)), max_buffers_(slots * kBuffersPerSlot) {
  for (uint32_t i = slots; i != 0; --i) {
    holds_[i].next = free_;
    free_ = i;
  }
}

Merger::~Merger() {
  for (uint32_t s = holds_[0].next; s != 0; s = holds_[s].next) PktPtr(holds_[s].head).reset();
}

void Merger::add(Flow& flow, PktPtr pkt, const PacketView& v, Nanos now) noexcept {
  ++count_.merge_in_segs;
  const uint16_t segment = segment_payload(*pkt, v);
  if (segment >= flow.full_payload) {
    flow.full_payload = segment;
    flow.small_run = 0;
  } else if (segment >= kLeastFull && ++flow.small_run == kSmallRun) {
    flow.full_payload = segment;  // the sender has gone over to smaller segments
    flow.small_run = 0;
  }
  const bool full = segment == flow.full_payload && segment >= kLeastFull && v.payload_len % segment == 0;
  const uint8_t bulk_segs = bulk_segments(*pkt, v);
  if (full) {
    const bool close = to_micros(now) - flow.last_in <= to_micros(limits_.hold);
    flow.bulk = close ? std::min<uint8_t>(kBulkMax, static_cast<uint8_t>(flow.bulk + 1))
                      : static_cast<uint8_t>(flow.bulk / 2);
  }
  flow.last_in = to_micros(now);
  flow.next_seq = v.seq + v.payload_len;  // a FIN counts one more, but nothing follows it

  if (flow.hold != 0) {
    const End end = mismatch(holds_[flow.hold], *pkt, v);
    if (end != End::kNone) {
      flush_slot(flow.hold, end, now);
    } else {
      join(holds_[flow.hold], std::move(pkt), v);
    }
  }
  if (pkt && !start(flow, pkt, v, now)) {
    ++count_.merge_no_hold;
    sink_.tx->push(std::move(pkt));
    return;
  }
  Hold& h = holds_[flow.hold];
  ++count_.merge_held_segs;
  h.bulk_segs = static_cast<uint8_t>(h.bulk_segs + bulk_segs);
  h.end_flags = static_cast<uint8_t>(v.flags & (kPsh | kFin));
  h.keep = full && flow.bulk >= kBulkThreshold && limits_.hold > Nanos(0);
  if (h.end_flags != 0) {
    flush_slot(flow.hold, End::kPush, now);
  } else if (uint32_t{h.ip_len} + flow.full_payload > flow.merge_cap) {
    flush_slot(flow.hold, End::kFull, now);
  } else if (limits_.early_segs > 1 && h.segs >= limits_.early_segs && flow.early < limits_.early_packets) {
    flush_slot(flow.hold, End::kSegs, now);
  } else if (fresh_n_ < fresh_.size()) {
    fresh_[fresh_n_++] = flow.hold;
  } else {
    flush_slot(flow.hold, End::kBurstEnd, now);
  }
}

bool Merger::start(Flow& flow, PktPtr& pkt, const PacketView& v, Nanos now) noexcept {
  const uint32_t slot = free_;
  if (slot == 0 || held_buffers_ + pkt->nb_segs > max_buffers_) return false;
  Hold& h = holds_[slot];
  free_ = h.next;
  h.payload_sum = payload_sum(*pkt, v);
  held_buffers_ += pkt->nb_segs;
  ++held_;
  h.head = pkt.release();
  h.last = rte_pktmbuf_lastseg(h.head);
  h.since = now;
  h.flow = flows_.index_of(flow);
  h.next_seq = v.seq + v.payload_len;
  h.ack = v.ack;
  h.tsval = v.tsval;
  h.tsecr = v.tsecr;
  h.window = v.window;
  h.ip_len = static_cast<uint16_t>(v.ip_len);
  h.segs = 1;
  h.bulk_segs = 0;
  h.l2_len = v.l2_len;
  h.l4_len = v.l4_len;
  h.ts_off = v.ts_off;
  h.v6 = v.version == 6;
  h.next = 0;
  h.prev = holds_[0].prev;
  holds_[h.prev].next = slot;
  holds_[0].prev = slot;
  flow.hold = slot;
  return true;
}

// All that must be equal for a segment to join, one test a field.
End Merger::mismatch(const Hold& h, const rte_mbuf& m, const PacketView& v) const noexcept {
  const Flow& flow = flows_.at(h.flow);
  if (v.seq != h.next_seq) return End::kGap;
  if ((m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD) return End::kChecksum;
  const uint8_t* a = data(*h.head);
  const uint8_t* b = data(m);
  const auto& tcp = header_at<TcpHeader>(*h.head, h.l2_len + (h.v6 ? kIpv6HeaderLen : kIpv4HeaderLen));
  if (((tcp.flags() ^ v.flags) & ~(kPsh | kFin)) != 0) return End::kFlags;
  if (v.l4_len != h.l4_len || v.ts_off != h.ts_off) return End::kOptions;
  if (v.l4_len != kTcpHeaderLen &&
      !options_equal(reinterpret_cast<const uint8_t*>(&tcp), b + v.l4_off(), v.l4_len, v.ts_off)) {
    return End::kOptions;
  }
  if (v.l2_len != h.l2_len || std::memcmp(a, b, v.l2_len) != 0) return End::kHeaders;
  if (h.v6) {
    const auto& x = header_at<Ipv6Header>(*h.head, h.l2_len);
    const auto& y = header_at<Ipv6Header>(m, v.l2_len);
    if (x.version_class_flow != y.version_class_flow) return End::kHeaders;  // class and flow label
    if (x.hop_limit != y.hop_limit) return End::kHeaders;
  } else {
    const auto& x = header_at<Ipv4Header>(*h.head, h.l2_len);
    const auto& y = header_at<Ipv4Header>(m, v.l2_len);
    if (x.tos != y.tos) return End::kHeaders;
    if (x.ttl != y.ttl) return End::kHeaders;
    if (x.frag != y.frag) return End::kHeaders;  // DF and the reserved bit
  }
  if (seq_before(v.ack, h.ack)) return End::kBackward;
  if (v.ts_off != 0 && (seq_before(v.tsval, h.tsval) || seq_before(v.tsecr, h.tsecr)))
    return End::kBackward;
  if (uint32_t{h.ip_len} + v.payload_len > flow.merge_cap) return End::kFull;
  if (h.head->nb_segs + m.nb_segs > limits_.max_segs || h.segs == UINT8_MAX) return End::kSegs;
  if (held_buffers_ + m.nb_segs > max_buffers_) return End::kSegs;
  return End::kNone;
}

void Merger::join(Hold& h, PktPtr pkt, const PacketView& v) noexcept {
  rte_mbuf& head = *h.head;
  const unsigned before = head.nb_segs;
  if (h.segs == 1) {  // until here it could have left as it came, padding and all
    trim_to(head, uint32_t{h.l2_len} + h.ip_len);
    h.last = rte_pktmbuf_lastseg(&head);
  }
  const unsigned payload_before = h.ip_len - (h.v6 ? kIpv6HeaderLen : kIpv4HeaderLen) - h.l4_len;
  const uint16_t sum = payload_sum(*pkt, v);
  h.payload_sum = fold(uint64_t{h.payload_sum} + (payload_before % 2 != 0 ? swap_odd(sum) : sum));
  trim_to(*pkt, v.l2_len + v.ip_len);
  PktPtr payload(strip_front(pkt.release(), static_cast<uint16_t>(v.header_len())));
  h.last = append(head, *h.last, std::move(payload));
  held_buffers_ += head.nb_segs - before;
  h.next_seq += v.payload_len;
  h.ip_len = static_cast<uint16_t>(h.ip_len + v.payload_len);
  h.ack = v.ack;
  h.tsval = v.tsval;
  h.tsecr = v.tsecr;
  h.window = v.window;
  ++h.segs;
}

void Merger::finish_headers(Hold& h) noexcept {
  rte_mbuf& m = *h.head;
  const unsigned l3 = h.v6 ? kIpv6HeaderLen : kIpv4HeaderLen;
  const uint32_t l4_len = h.ip_len - l3;
  auto& tcp = header_at<TcpHeader>(m, h.l2_len + l3);
  tcp.ack = be32(h.ack);
  tcp.window = be16(h.window);
  tcp.off_flags.bytes[1] |= h.end_flags;
  if (h.ts_off != 0) {
    const be32 tsecr(h.tsecr);
    std::memcpy(reinterpret_cast<uint8_t*>(&tcp) + h.ts_off + 4, &tsecr, 4);
  }
  uint64_t sum;
  if (h.v6) {
    auto& ip = header_at<Ipv6Header>(m, h.l2_len);
    ip.payload_len = be16(static_cast<uint16_t>(l4_len));
    sum = pseudo_sum(ip, kProtoTcp, l4_len);
  } else {
    auto& ip = header_at<Ipv4Header>(m, h.l2_len);
    const uint16_t old_len = ip.total_len.raw();
    ip.total_len = be16(h.ip_len);
    ip.checksum = update_checksum(ip.checksum, old_len, ip.total_len.raw());
    sum = pseudo_sum(ip, kProtoTcp, l4_len);
  }
  tcp.checksum = be16(0);
  sum += sum_words(&tcp, h.l4_len) + h.payload_sum;
  tcp.checksum = be16::from_raw(static_cast<uint16_t>(~fold(sum)));
}

void Merger::flush_slot(uint32_t slot, End why, Nanos now) noexcept {
  Hold& h = holds_[slot];
  Flow& flow = flows_.at(h.flow);
  if (h.segs > 1) {
    finish_headers(h);
    if (flow.early != UINT8_MAX) ++flow.early;
    ++count_.merge_out_merged;
    count_.merge_out_segs += h.segs;
  }
  if (uint32_t{h.ip_len} + flow.full_payload > flow.merge_cap) count_.merge_bulk_full += h.bulk_segs;
  if (h.ip_len >= 8000) count_.merge_bulk_jumbo += h.bulk_segs;
  ++(count_.*kEndCounter[static_cast<size_t>(why)]);
  const auto held_us = static_cast<uint64_t>(std::max<int64_t>(0, (now - h.since).count())) / 1000;
  ++(*sink_.hold_histogram)[std::min<size_t>(std::bit_width(held_us), sink_.hold_histogram->size() - 1)];
  flow.hold = 0;
  holds_[h.prev].next = h.next;
  holds_[h.next].prev = h.prev;
  --held_;
  held_buffers_ -= h.head->nb_segs;
  PktPtr out(h.head);
  h.head = nullptr;
  h.next = free_;
  free_ = slot;
  sink_.tx->push(std::move(out));
}

void Merger::end_burst(Nanos now) noexcept {
  // A slot may stand here twice, or have gone to another flow since: what counts is its state now.
  for (uint16_t i = 0; i < fresh_n_; ++i) {
    const Hold& h = holds_[fresh_[i]];
    if (h.head != nullptr && !h.keep) flush_slot(fresh_[i], End::kBurstEnd, now);
  }
  fresh_n_ = 0;
}

void Merger::flush_expired(Nanos now) noexcept {
  for (uint32_t s = holds_[0].next; s != 0 && holds_[s].since + limits_.hold <= now; s = holds_[0].next)
    flush_slot(s, End::kHold, now);
}

void Merger::flush_all(End why, Nanos now) noexcept {
  while (holds_[0].next != 0) flush_slot(holds_[0].next, why, now);
  fresh_n_ = 0;
}

std::optional<Nanos> Merger::next_deadline() const noexcept {
  if (holds_[0].next == 0) return std::nullopt;
  return holds_[holds_[0].next].since + limits_.hold;
}

}  // namespace pxio
