// SPDX-License-Identifier: BSD-3-Clause
// The part of merging that every segment of a bulk transfer goes through: inline, for translator.cc.
// Worker thread.
#pragma once
#include <algorithm>

#include "pxio/dp/age_list.h"
#include "pxio/dp/merge.h"

namespace pxio {

// A flow that has sent this many full segments back to back is in bulk transfer.
inline constexpr uint8_t kBulkThreshold = 2, kBulkMax = 15;

inline uint32_t to_micros(Nanos t) { return static_cast<uint32_t>(t.count() >> 10); }

// All fixed fields that must be equal in the segments of one packet, in one word:
// IPv4: TOS, TTL, fragment field; IPv6: version, class and flow label, hop limit. Then TCP flags but PSH
// and FIN (12 bits), header length in words (4), and where the timestamps stand (6).
inline constexpr unsigned kFlagsAt = 40, kLengthAt = 52, kStampAt = 56;
inline constexpr uint64_t kUsualStamp = 63;  // NOP, NOP, timestamps and nothing else
inline uint64_t same_of(const uint8_t* ip, bool v6, uint16_t flags, unsigned l4_len, uint64_t stamp) {
  const uint64_t l3 = v6 ? load<uint32_t>(ip) | uint64_t{ip[7]} << 32
                         : ip[1] | uint64_t{ip[8]} << 8 | uint64_t{load<uint16_t>(ip + 6)} << 16;
  return l3 | uint64_t{static_cast<uint16_t>(flags & ~(kPsh | kFin))} << kFlagsAt |
         uint64_t{l4_len / 4} << kLengthAt | stamp << kStampAt;
}
inline uint64_t stamp_of(const uint8_t* tcp, const PacketView& v) {
  const bool usual = v.ts_off == kTimestampOffset && v.l4_len == 32 &&
                     load<uint32_t>(tcp + kTcpHeaderLen) == kTimestampWord;
  return usual ? kUsualStamp : v.ts_off;
}
// Whether options stand there that `same` doesn't tell all of.
inline bool other_options(uint64_t same) {
  return (same >> kLengthAt & 15) != kTcpHeaderLen / 4 && same >> kStampAt != kUsualStamp;
}

// Priority and drop eligibility of both VLAN tags.
inline uint8_t priorities_of(const uint8_t* p, unsigned l2_len) {
  if (l2_len < 18) [[likely]] return 0;
  return static_cast<uint8_t>(p[14] >> 4 | (l2_len == 22 ? p[18] & 0xf0 : 0));
}

inline bool Merger::prefetch_last(const Flow& flow, uint32_t n) const noexcept {
  if (flow.hold == 0) return false;
  const Hold& h = holds_[flow.hold];
  if (h.last != nullptr) rte_prefetch0(&h.last->next);
  if (h.ip_len + (n + 1) * flow.full_payload <= flow.merge_cap) return false;
  rte_prefetch0(h.head);
  rte_prefetch0(&links_[flow.hold]);
  return true;
}

inline void Merger::prefetch_head(const Flow& flow) const noexcept {
  const uint8_t* p = data(*holds_[flow.hold].head);
  asm volatile("" : : "r"(p[0]));
  rte_prefetch0(p + 64);
  const Link& l = links_[flow.hold];
  rte_prefetch0(&links_[l.prev]);
  rte_prefetch0(&links_[l.next]);
}

inline void Merger::prefetch_free(uint32_t n) const noexcept {
  for (uint32_t i = 1; i <= std::min(n, free_n_); ++i) {
    rte_prefetch0(&holds_[free_[free_n_ - i]]);
    rte_prefetch0(&links_[free_[free_n_ - i]]);
  }
}

// The flow's next segment is a full one.
inline void Merger::note_full(Flow& flow, uint32_t now_us) const noexcept {
  if (now_us - flow.last_in > hold_us_) {
    flow.bulk /= 2;
  } else if (flow.bulk < kBulkMax) {
    ++flow.bulk;
  }
}

// A segment has gone into the flow's packet: is that to leave now, with its burst, or later?
inline void Merger::after(Flow& flow, Hold& h, uint8_t end_flags, Nanos now) noexcept {
  if (end_flags != 0) [[unlikely]] {
    flush_slot(flow.hold, End::kPush, now, end_flags);
  } else if (uint32_t{h.ip_len} + flow.full_payload > flow.merge_cap) {
    flush_slot(flow.hold, End::kFull, now);
  } else if (limits_.early_segs > 1 && h.segs >= limits_.early_segs && flow.early < limits_.early_packets) {
    flush_slot(flow.hold, End::kSegs, now);
  } else if (!h.keep) {
    if (fresh_n_ < fresh_.size()) {
      fresh_[fresh_n_++] = flow.hold;
    } else {
      flush_slot(flow.hold, End::kBurstEnd, now);
    }
  }
}

// A slot for the flow, at the young end of the list. There is one.
inline uint32_t Merger::take_slot(Flow& flow, Nanos now) noexcept {
  const uint32_t slot = free_[--free_n_];
  Link& l = links_[slot];
  ++held_;
  l.flow = flows_.index_of(flow);
  l.since = now;
  link_youngest(links_.get(), slot);
  flow.hold = slot;
  return slot;
}

// The fields of a segment that recognise_inbound() has taken.
template <bool kV6, bool kStamps>
inline PlainFields fields_of(const PlainSegment& s) noexcept {
  constexpr uint32_t kL3 = kV6 ? kIpv6HeaderLen : kIpv4HeaderLen;
  constexpr uint32_t kL4 = kStamps ? 32 : kTcpHeaderLen;
  const uint8_t* ip = s.p + s.l2_len;
  const uint8_t* tcp = ip + kL3;
  const uint16_t flags = load<be16>(tcp + 12).host() & 0x0fff;
  return {.same_ = same_of(ip, kV6, flags, kL4, kStamps ? kUsualStamp : 0),
          .seq_ = load<be32>(tcp + 4).host(),
          .ack_ = load<be32>(tcp + 8).host(),
          .tsval_ = kStamps ? load<be32>(tcp + 24).host() : 0,
          .tsecr_ = kStamps ? load<be32>(tcp + 28).host() : 0,
          .sum_ = header_sum(ip, kV6, kL3, kL4, s.ip_len),
          .window_ = load<be16>(tcp + 14).host(),
          .ip_len_ = s.ip_len,
          .payload_len_ = s.payload_len,
          .push_ = (flags & kPsh) != 0};
}

template <bool kV6, bool kStamps, typename Fields>
[[gnu::always_inline]] inline bool Merger::add_plain(Flow& flow, rte_mbuf& m, const uint8_t* p, uint8_t l2_len,
                                                     const Fields& s, Nanos now, uint32_t now_us) noexcept {
  constexpr uint32_t kL3 = kV6 ? kIpv6HeaderLen : kIpv4HeaderLen;
  constexpr uint32_t kL4 = kStamps ? 32 : kTcpHeaderLen;
  const uint64_t macs_a = load<uint64_t>(p);
  const uint32_t macs_b = load<uint32_t>(p + 8);
  const uint8_t priorities = priorities_of(p, l2_len);
  const uint16_t payload_len = s.payload_len();
  uint32_t slot = flow.hold;
  Hold* h = &holds_[slot];
  if (slot != 0) [[likely]] {
    const uint64_t differs = (h->same ^ s.same()) | (h->macs_a ^ macs_a) | (h->macs_b ^ macs_b) |
                             static_cast<uint64_t>(h->priorities ^ priorities);
    // The highest bit tells.
    const uint32_t back = (s.ack() - h->ack) | (s.tsval() - h->tsval) | (s.tsecr() - h->tsecr);
    const uint32_t ip_len = uint32_t{h->ip_len} + payload_len;
    if (differs != 0 || static_cast<int32_t>(back) < 0 || ip_len > flow.merge_cap || h->buffers >= max_chain_ ||
        h->unsettled)
      return false;
    const unsigned before = h->ip_len - kL3 - kL4;
    h->header_sums += before % 2 != 0 ? swap_odd(fold(s.sum())) : s.sum();
    const auto headers = static_cast<uint16_t>(l2_len + kL3 + kL4);
    m.data_off = static_cast<uint16_t>(m.data_off + headers);
    m.data_len = payload_len;
    h->last->next = &m;
    h->last = &m;
    ++h->buffers;
    ++h->segs;
    h->ip_len = static_cast<uint16_t>(ip_len);
    h->bulk_segs = static_cast<uint8_t>(h->bulk_segs + (payload_len >= kBulkPayload));
  } else {
    if (free_n_ == 0) return false;
    slot = take_slot(flow, now);
    h = &holds_[slot];
    h->head = h->last = &m;
    h->same = s.same();
    h->macs_a = macs_a;
    h->macs_b = macs_b;
    h->header_sums = s.sum();
    h->ip_len = s.ip_len();
    h->segs = h->buffers = 1;
    h->bulk_segs = payload_len >= kBulkPayload;
    h->l2_len = l2_len;
    h->l4_len = kL4;
    h->ts_off = kStamps ? kTimestampOffset : 0;
    h->priorities = priorities;
    h->v6 = kV6;
    h->unsettled = false;
  }
  ++held_buffers_;
  h->ack = s.ack();
  h->tsval = s.tsval();
  h->tsecr = s.tsecr();
  h->window = s.window();
  flow.small_run = 0;
  note_full(flow, now_us);
  flow.last_in = now_us;
  flow.next_seq += payload_len;
  h->keep = flow.bulk >= keep_from_;
  after(flow, *h, s.push() ? kPsh : uint8_t{0}, now);
  return true;
}

inline uint32_t Merger::add_run(Flow& flow, rte_mbuf* const* pkts, const PlainLanes& lanes, uint32_t first,
                                uint32_t n, Nanos now) noexcept {
  constexpr uint16_t kHeaders = sizeof(EthernetHeader) + kIpv4HeaderLen + 32;
  Hold& h = holds_[flow.hold];
  if (flow.hold == 0 || h.buffers >= max_chain_ || (limits_.early_segs > 1 && flow.early < limits_.early_packets))
    return 0;
  const uint32_t payload_len = LaneFields(lanes, first).payload_len();
  n = std::min({n, (flow.merge_cap - uint32_t{h.ip_len}) / payload_len, uint32_t{max_chain_} - h.buffers});
  uint32_t sums[2] = {0, 0};  // at even and at odd offsets of the TCP payload
  bool odd = h.ip_len % 2 != 0;
  uint32_t k = 0;
  for (; k < n; ++k) {
    const uint8_t* p = lanes.frame[first + k];
    if (((h.macs_a ^ load<uint64_t>(p)) | (h.macs_b ^ load<uint32_t>(p + 8))) != 0) [[unlikely]] break;
    rte_mbuf& m = *pkts[first + k];
    m.data_off = static_cast<uint16_t>(m.data_off + kHeaders);
    m.data_len = static_cast<uint16_t>(payload_len);
    h.last->next = &m;
    h.last = &m;
    sums[odd] += lanes.sum[first + k];
    odd ^= payload_len % 2 != 0;
  }
  if (k == 0) return 0;
  h.header_sums += sums[0] + swap_odd(fold(sums[1]));
  h.buffers = static_cast<uint8_t>(h.buffers + k);
  h.segs = static_cast<uint8_t>(h.segs + k);
  h.ip_len = static_cast<uint16_t>(h.ip_len + k * payload_len);
  if (payload_len >= kBulkPayload) h.bulk_segs = static_cast<uint8_t>(h.bulk_segs + k);
  held_buffers_ += k;
  const LaneFields end(lanes, first + k - 1);
  h.ack = end.ack();
  h.tsval = end.tsval();
  h.tsecr = end.tsecr();
  h.window = end.window();
  flow.bulk = static_cast<uint8_t>(std::min<uint32_t>(flow.bulk + k, kBulkMax));
  flow.next_seq += k * payload_len;
  h.keep = flow.bulk >= keep_from_;
  after(flow, h, 0, now);
  return k;
}

template <typename Fields>
inline bool Merger::add_whole(Flow& flow, const Fields& s, uint32_t segment, uint32_t now_us) noexcept {
  const bool full = uint32_t{s.ip_len()} + segment > flow.merge_cap;
  if (flow.hold != 0 || s.payload_len() % segment != 0 || (!full && !s.push())) return false;
  const uint32_t segs = s.payload_len() / segment;
  const uint32_t bulk = segment >= kBulkPayload ? segs : 0;
  ++count_.merge_in_segs;
  ++count_.merge_held_segs;
  count_.merge_bulk_in += bulk;
  if (full) count_.merge_bulk_full += bulk;
  if (s.ip_len() >= 8000) count_.merge_bulk_jumbo += bulk;
  ++(s.push() ? count_.merge_end_push : count_.merge_end_full);
  ++(*sink_.hold_histogram)[0];
  flow.small_run = 0;
  note_full(flow, now_us);
  flow.last_in = now_us;
  flow.next_seq += s.payload_len();
  return true;
}

}  // namespace pxio
