// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/merge.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "pxio/dp/age_list.h"
#include "pxio/dp/checksum.h"
#include "pxio/dp/merge_plain.h"

namespace pxio {
namespace {

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

bool options_equal(const uint8_t* a, const uint8_t* b, unsigned len, unsigned ts_off) {
  if (ts_off == 0) return std::memcmp(a + kTcpHeaderLen, b + kTcpHeaderLen, len - kTcpHeaderLen) == 0;
  return std::memcmp(a + kTcpHeaderLen, b + kTcpHeaderLen, ts_off - kTcpHeaderLen) == 0 &&
         std::memcmp(a + ts_off + 8, b + ts_off + 8, len - ts_off - 8) == 0;
}

}  // namespace

Merger::Merger(FlowTable& flows, uint32_t slots, Limits limits, Sink sink, Counters& counters)
    : flows_(flows), sink_(sink), count_(counters),
      holds_(make_zeroed<Hold>(size_t{slots} + 1)), links_(make_zeroed<Link>(size_t{slots} + 1)),
      free_(make_zeroed<uint32_t>(slots)),
      max_buffers_(slots * kBuffersPerSlot) {
  set_limits(limits);
  for (uint32_t i = slots; i != 0; --i) free_[free_n_++] = i;
}

void Merger::set_limits(Limits limits) noexcept {
  limits_ = limits;
  // A shorter one than the unit counts as one, zero stays zero.
  hold_us_ = limits.hold > Nanos(0) ? std::max(1u, to_micros(limits.hold)) : 0;
  keep_from_ = hold_us_ != 0 ? kBulkThreshold : UINT8_MAX;
  max_chain_ = static_cast<uint8_t>(std::min<unsigned>(limits.max_segs, UINT8_MAX));
}

Merger::~Merger() {
  for (uint32_t s = links_[0].next; s != 0; s = links_[s].next) {
    Hold& h = holds_[s];
    h.head->nb_segs = h.buffers;
    PktPtr(h.head).reset();
  }
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
  const uint32_t now_us = to_micros(now);
  if (full) note_full(flow, now_us);
  flow.last_in = now_us;

  if (flow.hold != 0) {
    const End end = mismatch(holds_[flow.hold], flow, *pkt, v);
    if (end != End::kNone) {
      flush_slot(flow.hold, end, now);
    } else {
      join(holds_[flow.hold], std::move(pkt), v);
    }
  }
  flow.next_seq = v.seq + v.payload_len;  // a FIN counts one more, but nothing follows it
  if (pkt && !start(flow, pkt, v, now)) {
    ++count_.merge_no_hold;
    sink_.tx->push(std::move(pkt));
    return;
  }
  Hold& h = holds_[flow.hold];
  ++count_.merge_held_segs;
  h.bulk_segs = static_cast<uint8_t>(h.bulk_segs + bulk_segs);
  h.keep = full && flow.bulk >= keep_from_;
  after(flow, h, static_cast<uint8_t>(v.flags & (kPsh | kFin)), now);
}

bool Merger::start(Flow& flow, PktPtr& pkt, const PacketView& v, Nanos now) noexcept {
  if (free_n_ == 0 || held_buffers_ + pkt->nb_segs > max_buffers_ || pkt->nb_segs > UINT8_MAX) return false;
  Hold& h = holds_[take_slot(flow, now)];
  const uint8_t* p = data(*pkt);
  const uint8_t* ip = p + v.l2_len;
  h.v6 = v.version == 6;
  h.header_sums = header_sum(ip, h.v6, v.l3_len, v.l4_len, v.ip_len);
  h.same = same_of(ip, h.v6, v.flags, v.l4_len, stamp_of(ip + v.l3_len, v));
  h.macs_a = v.l2_len != 0 ? load<uint64_t>(p) : 0;
  h.macs_b = v.l2_len != 0 ? load<uint32_t>(p + 8) : 0;
  h.priorities = priorities_of(p, v.l2_len);
  h.buffers = static_cast<uint8_t>(pkt->nb_segs);
  held_buffers_ += h.buffers;
  // Most chains are full packets that leave at once: their buffers aren't walked through for the last.
  h.unsettled = pkt->pkt_len != v.l2_len + v.ip_len || pkt->nb_segs != 1;
  h.head = pkt.release();
  h.last = h.unsettled ? nullptr : h.head;
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
  return true;
}

// All that must be equal for a segment to join, one test a field.
End Merger::mismatch(const Hold& h, const Flow& flow, const rte_mbuf& m, const PacketView& v) const noexcept {
  if (v.seq != flow.next_seq) return End::kGap;
  if ((m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD) return End::kChecksum;
  const uint8_t* p = data(m);
  const uint8_t* ip = p + v.l2_len;
  const uint8_t* tcp = ip + v.l3_len;
  const uint64_t differs = h.same ^ same_of(ip, v.version == 6, v.flags, v.l4_len, stamp_of(tcp, v));
  if ((differs >> kFlagsAt & 0xfff) != 0) return End::kFlags;
  if (differs >> kLengthAt != 0) return End::kOptions;
  if (other_options(h.same)) {
    const uint8_t* first = data(*h.head) + h.l2_len + (h.v6 ? kIpv6HeaderLen : kIpv4HeaderLen);
    if (!options_equal(first, tcp, v.l4_len, v.ts_off)) return End::kOptions;
  }
  // TOS or class, TTL or hop limit, DF and the reserved bit, or the flow label.
  if (differs != 0 || v.l2_len != h.l2_len) return End::kHeaders;
  if (v.l2_len != 0 && (load<uint64_t>(p) != h.macs_a || load<uint32_t>(p + 8) != h.macs_b)) return End::kHeaders;
  if (priorities_of(p, v.l2_len) != h.priorities) return End::kHeaders;
  if (seq_before(v.ack, h.ack)) return End::kBackward;
  if (v.ts_off != 0 && (seq_before(v.tsval, h.tsval) || seq_before(v.tsecr, h.tsecr)))
    return End::kBackward;
  if (uint32_t{h.ip_len} + v.payload_len > flow.merge_cap) return End::kFull;
  if (unsigned{h.buffers} + m.nb_segs > max_chain_ || h.segs == UINT8_MAX)
    return End::kSegs;
  if (held_buffers_ + m.nb_segs > max_buffers_) return End::kSegs;
  return End::kNone;
}

uint32_t Merger::lacking(const Flow& flow, const rte_mbuf& m, const PacketView& v, uint16_t segment) const noexcept {
  if (flow.hold == 0) return 0;
  const Hold& h = holds_[flow.hold];
  const End end = mismatch(h, flow, m, v);
  if (end != End::kNone && end != End::kFull) return 0;
  return (uint32_t{flow.merge_cap} - h.ip_len) / segment * segment;
}

void Merger::join(Hold& h, PktPtr pkt, const PacketView& v) noexcept {
  if (h.unsettled) {  // until here it could have left as it came
    trim_to(*h.head, uint32_t{h.l2_len} + h.ip_len);
    h.last = rte_pktmbuf_lastseg(h.head);
    held_buffers_ -= h.buffers - h.head->nb_segs;
    h.buffers = static_cast<uint8_t>(h.head->nb_segs);
    h.unsettled = false;
  }
  const unsigned payload_before = h.ip_len - (h.v6 ? kIpv6HeaderLen : kIpv4HeaderLen) - h.l4_len;
  const uint32_t sum = header_sum(data(*pkt) + v.l2_len, h.v6, v.l3_len, v.l4_len, v.ip_len);
  h.header_sums += payload_before % 2 != 0 ? swap_odd(fold(sum)) : sum;
  trim_to(*pkt, v.l2_len + v.ip_len);
  PktPtr payload(strip_front(pkt.release(), static_cast<uint16_t>(v.header_len())));
  h.buffers = static_cast<uint8_t>(h.buffers + payload->nb_segs);
  held_buffers_ += payload->nb_segs;
  h.last = append(*h.head, *h.last, std::move(payload));
  h.ip_len = static_cast<uint16_t>(h.ip_len + v.payload_len);
  h.ack = v.ack;
  h.tsval = v.tsval;
  h.tsecr = v.tsecr;
  h.window = v.window;
  ++h.segs;
}

// The sum is taken of the old header and corrected by what changes: reading back what was just written
// in other sizes would wait for the stores.
void Merger::finish_headers(Hold& h, uint8_t end_flags) noexcept {
  rte_mbuf& m = *h.head;
  m.nb_segs = h.buffers;
  m.pkt_len = uint32_t{h.l2_len} + h.ip_len;
  uint8_t* ip = data(m) + h.l2_len;
  const uint32_t l3_len = h.v6 ? kIpv6HeaderLen : kIpv4HeaderLen;
  uint8_t* tcp = ip + l3_len;
  uint64_t sum = header_sum(ip, h.v6, l3_len, h.l4_len, h.ip_len) + static_cast<uint16_t>(~fold(h.header_sums));
  const auto replace = [&sum](uint8_t* at, uint32_t with, unsigned shift = 0) {
    // At an odd offset of the header every byte counts for 256 times what it does at an even one.
    sum += (uint64_t{with} << shift) + (uint64_t{0xffffffff} << shift) - (uint64_t{load<uint32_t>(at)} << shift);
    std::memcpy(at, &with, sizeof with);
  };
  replace(tcp + 8, be32(h.ack).raw());
  replace(tcp + 12, (load<uint32_t>(tcp + 12) & 0xffff) | uint32_t{end_flags} << 8 | uint32_t{be16(h.window).raw()} << 16);
  if (h.ts_off != 0) replace(tcp + h.ts_off + 4, be32(h.tsecr).raw(), h.ts_off % 2 * 8u);
  sum += uint64_t{0xffff} - load<uint16_t>(tcp + 16);
  const auto checksum = static_cast<uint16_t>(~fold(sum));
  std::memcpy(tcp + 16, &checksum, sizeof checksum);
  if (h.v6) {
    header_at<Ipv6Header>(m, h.l2_len).payload_len = be16(static_cast<uint16_t>(h.ip_len - l3_len));
  } else {
    auto& v4 = header_at<Ipv4Header>(m, h.l2_len);
    const be16 len(h.ip_len);
    v4.checksum = update_checksum(v4.checksum, v4.total_len.raw(), len.raw());
    v4.total_len = len;
  }
}

void Merger::flush_slot(uint32_t slot, End why, Nanos now, uint8_t end_flags) noexcept {
  Hold& h = holds_[slot];
  Link& l = links_[slot];
  Flow& flow = flows_.at(l.flow);
  if (h.segs > 1) {
    finish_headers(h, end_flags);
    if (flow.early != UINT8_MAX) ++flow.early;
    ++count_.merge_out_merged;
    count_.merge_out_segs += h.segs;
  }
  if (uint32_t{h.ip_len} + flow.full_payload > flow.merge_cap) count_.merge_bulk_full += h.bulk_segs;
  if (h.ip_len >= 8000) count_.merge_bulk_jumbo += h.bulk_segs;
  ++(count_.*kEndCounter[static_cast<size_t>(why)]);
  const auto held_us = static_cast<uint64_t>(std::max<int64_t>(0, (now - l.since).count())) / 1000;
  ++(*sink_.hold_histogram)[std::min<size_t>(std::bit_width(held_us), sink_.hold_histogram->size() - 1)];
  flow.hold = 0;
  unlink_place(links_.get(), slot);
  --held_;
  held_buffers_ -= h.buffers;
  PktPtr out(h.head);
  h.head = nullptr;
  free_[free_n_++] = slot;
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
  for (uint32_t s = links_[0].next; s != 0 && links_[s].since + limits_.hold <= now; s = links_[0].next)
    flush_slot(s, End::kHold, now);
}

void Merger::flush_all(End why, Nanos now) noexcept {
  while (links_[0].next != 0) flush_slot(links_[0].next, why, now);
  fresh_n_ = 0;
}

std::optional<Nanos> Merger::next_deadline() const noexcept {
  if (links_[0].next == 0) return std::nullopt;
  return links_[links_[0].next].since + limits_.hold;
}

}  // namespace pxio
