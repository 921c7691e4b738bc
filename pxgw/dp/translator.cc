// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/translator.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "pxgw/dp/ip_fragment.h"
#include "pxio/dp/checksum.h"
#include "pxio/dp/finish_checksum.h"
#include "pxio/dp/merge_plain.h"
#include "pxio/dp/plain_datagram.h"
#include "pxio/dp/segmenting.h"

namespace pxgw {

using namespace pxio;

namespace {

// Flags of a segment that is never merged.
constexpr uint16_t kAlone = kSyn | kRst | kUrg | kTcpReserved;

bool tcp_fragment(const rte_mbuf& m, const PacketView& v) {
  if (v.kind != Kind::kFragment) return false;
  if (v.version == 4) return v.proto == kProtoTcp;
  const uint32_t at = v.l4_off();
  return at < m.data_len && data(m)[at] == kProtoTcp;
}

bool splittable(const PacketView& v) {
  return v.payload_len != 0 && (v.flags & (kSyn | kRst | kUrg)) == 0 && !v.signed_ && !v.bad_options;
}

Merger::Limits merge_limits(const Policy& p) {
  return {p.hold_limit, p.max_merge_segs, p.merge_early_segs, p.merge_early_packets};
}

// Bring the lines of a burst near: both of each buffer's metadata; and two of its headers.
void touch_buffers(rte_mbuf* const* pkts, uint16_t n) noexcept {
  for (uint16_t i = 0; i < n; ++i) asm volatile("" : : "r"(pkts[i]->buf_addr), "r"(pkts[i]->next));
}
void touch_headers(rte_mbuf* const* pkts, uint16_t n) noexcept {
  for (uint16_t i = 0; i < n; ++i) {
    const uint8_t* p = data(*pkts[i]);
    if (pkts[i]->data_len != 0) asm volatile("" : : "r"(p[0]));
    if (pkts[i]->data_len > 64) asm volatile("" : : "r"(p[64]));
  }
}

// Payload of the segments that leave: what path and receiver both take; 0: nothing fits.
uint32_t piece_of(uint32_t limit_ip, uint32_t limit_mss, uint32_t headers, uint32_t options) {
  const uint32_t by_mtu = limit_ip > headers ? limit_ip - headers : 0;
  const uint32_t by_mss = limit_mss > options ? limit_mss - options : 0;
  return std::min(by_mtu, by_mss);
}

// Where a flow isn't known, it may count marks (RFC 9768).
CwrRule cwr_rule(const Flow* f) {
  const bool classic = f != nullptr && (f->ecn == EcnMode::kClassic || f->ecn == EcnMode::kNone);
  return classic ? CwrRule::kFirstOnly : CwrRule::kEverySegment;
}
// What merges sets CWR on a packet where its first segment had it.
CwrRule cwr_rule_merged(const Flow* f) {
  return f == nullptr || f->ecn != EcnMode::kAccurate ? CwrRule::kFirstOnly : CwrRule::kEverySegment;
}

uint32_t pieces(uint32_t payload, uint32_t piece) { return (payload + piece - 1) / piece; }

}  // namespace

Translator::Translator(const Policy& policy, const Capacity& capacity, Buffers buffers, TxBuffer& to_inside,
                       TxBuffer& to_outside)
    : policy_(&policy), buffers_(buffers), inside_(to_inside), outside_(to_outside),
      flows_(capacity.flows), handshakes_(capacity.handshakes), pmtu_(capacity.pmtu),
      marks_(make_zeroed<Mark>(flows_.capacity() + size_t{1})),
      merger_(flows_, capacity.held, merge_limits(policy),
              {&to_inside, &count_.hold}, count_.engine) {
  const uint16_t l2 = policy.link == Link::kEthernet ? sizeof(EthernetHeader) : 0;
  inside_.set_l2_len(l2);
  outside_.set_l2_len(l2);
  pmtu_.set_times(policy.pmtu_timeout, policy.probing.retry);
  icmp_tokens_ = policy.icmp_per_second;
}

template <typename Fields>
inline bool Translator::carries_on(const Flow* f, const Fields& s) const noexcept {
  return f != nullptr && !f->renewed && f->jumbo && f->seq_known && s.ip_len() <= f->merge_cap &&
         f->merge_cap <= policy_->inside_mtu && s.seq() == f->next_seq;
}

// The flow may be gone from the merger by now: what was held isn't looked at any more.
template <typename Fields>
inline void Translator::took(Flow& f, const Fields& s) noexcept {
  f.last_seen = now_ticks_;
  f.fins &= static_cast<uint8_t>(~Flow::kReset);
  f.old_run = 0;
  note_ack(f, s.ack());
}

// The way of a full segment that carries on: what classify(), dispatch() and inbound() do for it, and
// nothing else; the caller counts it. False: it has to go that way.
template <bool kV6, bool kStamps, typename Fields>
[[gnu::always_inline]] inline bool Translator::express(Flow* f, rte_mbuf& m, const uint8_t* p, uint8_t l2_len,
                                                       const Fields& s) noexcept {
  if (!carries_on(f, s) || s.payload_len() != f->full_payload || s.payload_len() < kLeastFull ||
      !merger_.add_plain<kV6, kStamps>(*f, m, p, l2_len, s, now_, now_us_))
    return false;
  took(*f, s);
  return true;
}

// Of `n` segments that follow the one that express() has just taken, as many as fit what is held with it: what
// express() does for each. Returns how many.
inline uint32_t Translator::express_run(rte_mbuf* const* pkts, uint32_t first, uint32_t n, Taken& taken) noexcept {
  Flow& f = *plain_flows_[first];
  const uint32_t k = merger_.add_run(f, pkts, lanes_, first, n, now_);
  if (k == 0) return 0;
  taken.lanes |= static_cast<uint32_t>((uint64_t{1} << k) - 1) << first;
  for (uint32_t i = first; i < first + k; ++i) note_ack(f, lanes_.ack[i]);
  return k;
}

void Translator::note_lanes(const InLanes& lanes, Taken& taken) noexcept {
  const auto note = [&](uint32_t ip_len, uint32_t n) {
    taken.pkts += n;
    taken.segs += n;
    if (ip_len >= kIpv4HeaderLen + 32u + kBulkPayload) taken.bulk += n;
    taken.bytes += uint64_t{n} * (sizeof(EthernetHeader) + ip_len);
    count_.size_in[index(Direction::kInbound)][size_bin(ip_len)] += n;
  };
  if ((taken.lanes & ~lanes.alike) == 0) [[likely]] {
    if (taken.lanes != 0) note(lanes_.ip_len[0], static_cast<uint32_t>(std::popcount(taken.lanes)));
    return;
  }
  for (uint32_t left = taken.lanes; left != 0; left &= left - 1) note(lanes_.ip_len[std::countr_zero(left)], 1);
}

// What the port has merged as far as it may grow, and carries on.
inline bool Translator::express_merged(uint16_t i, rte_mbuf& m, Taken& taken) noexcept {
  Flow* f = plain_flows_[i];
  const LaneFields s(lanes_, i);
  const uint16_t segment = m.tso_segsz;
  if (!carries_on(f, s) || segment != f->full_payload || segment < kLeastFull || s.payload_len() < segment ||
      !merger_.add_whole(*f, s, segment, now_us_))
    return false;
  note_packet(taken, Direction::kInbound, s.ip_len(), m.pkt_len);
  took(*f, s);
  f->last_heard = static_cast<uint8_t>(now_ticks_ / 16);
  push(PktPtr(&m), Direction::kInbound);
  return true;
}

[[gnu::noinline]] bool Translator::express_other(uint16_t i, rte_mbuf& m, Taken& taken) noexcept {
  const PlainSegment& s = plain_[i];
  const uint32_t frame = m.pkt_len;
  const auto as = [&]<bool kV6, bool kStamps>() {
    return express<kV6, kStamps>(plain_flows_[i], m, s.p, s.l2_len, fields_of<kV6, kStamps>(s));
  };
  const bool stamps = s.l4_len != kTcpHeaderLen, v4 = s.l3_len == kIpv4HeaderLen;
  if (!(v4 ? stamps ? as.template operator()<false, true>() : as.template operator()<false, false>()
           : stamps ? as.template operator()<true, true>() : as.template operator()<true, false>()))
    return false;
  note_packet(taken, Direction::kInbound, s.ip_len, frame);
  ++taken.segs;
  taken.bulk += s.payload_len >= kBulkPayload;
  return true;
}

// Proved, and what can_cut() says yes to.
inline void Translator::leave_to_port(PktPtr pkt, const PacketView& v, Direction d, uint32_t piece,
                                      uint32_t n) noexcept {
  leave_as_segments(*pkt, v, static_cast<uint16_t>(piece));
  ++count_.engine.split_in_pkts;
  ++count_.engine.split_by_port;
  count_.engine.split_out_segs += n;
  way(d).push_segments(std::move(pkt), n);
}

// The way of a packet from inside that leaves as it came, or that the port cuts: what classify(), dispatch() and
// outbound() do for it, and nothing else. False: it has to go that way.
inline bool Translator::express_out(Flow* flow, rte_mbuf& m, const PlainSegment& s, Taken& taken) noexcept {
  if (flow == nullptr || flow->renewed || !flow->out_known || flow->probe_due || flow->merge_cap > policy_->inside_mtu)
    return false;
  Flow& f = *flow;
  const uint8_t* tcp = s.p + s.l2_len + s.l3_len;
  const uint32_t seq = load<be32>(tcp + 4).host();
  // What comes again may have been too large.
  if (s.payload_len != 0 && seq == f.out_una && seq_before(seq, f.out_next)) return false;
  const uint32_t path = path_limit(f);
  const uint32_t piece = piece_of(path, f.peer_mss, uint32_t{s.l3_len} + s.l4_len, s.l4_len - kTcpHeaderLen);
  if (piece == 0) return false;
  const uint32_t frame = m.pkt_len, n = s.payload_len > piece ? pieces(s.payload_len, piece) : 1;
  if (n > 1) {
    if (n > policy_->max_split_segs) return false;
    if ((m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) != RTE_MBUF_F_RX_L4_CKSUM_GOOD) return false;
    PacketView v;
    v.kind = Kind::kTcp;
    v.version = s.l3_len == kIpv4HeaderLen ? 4 : 6;
    v.l2_len = s.l2_len;
    v.l3_len = s.l3_len;
    v.l4_len = s.l4_len;
    v.ip_len = s.ip_len;
    v.flags = load<TcpHeader>(tcp).flags();
    if (!can_cut(outside_.segmenting(), m, v, piece, cwr_rule(&f))) return false;
    leave_to_port(PktPtr(&m), v, Direction::kOutbound, piece, n);
  } else {
    if (s.ip_len > std::max<uint32_t>(policy_->assumed_path(), path)) return false;
    ++(s.payload_len != 0 ? count_.pass_tcp_fits : count_.pass_tcp_pure_ack);
    outside_.push(PktPtr(&m));
  }
  note_packet(taken, Direction::kOutbound, s.ip_len, frame);
  f.last_seen = now_ticks_;
  if (s.payload_len != 0) f.fins &= static_cast<uint8_t>(~Flow::kReset);
  const uint32_t end = seq + s.payload_len;
  if (seq_before(f.out_next, end)) f.out_next = end;
  return true;
}

inline void Translator::offer(PktPtr pkt, Item& it) noexcept {
  offered_[offered_n_] = {pkt.release(), &it.v, it.dir};
  offered_items_[offered_n_++] = &it;
}

// A plain datagram: what examine() does for it, but that the caller counts it.
inline bool Translator::datagram(uint16_t i, const rte_mbuf& m, Direction d) noexcept {
  Item& it = items_[i];
  if (!plain_datagram(m, it.v)) return false;
  it.flow = nullptr;
  it.dir = d;
  it.doubtful = false;
  it.crosses = true;
  return true;
}

// Of a packet that is in no lane. True: it is plain.
template <Direction kWay>
inline bool Translator::recognise_one(uint16_t i, rte_mbuf& m, bool by_port) noexcept {
  if (by_port && recognise<kWay>(m, plain_[i])) [[likely]] {
    hashes_[i] = flows_.hash(plain_[i].key);
    flows_.prefetch(hashes_[i]);
    return true;
  }
  examine(items_[i], m, kWay);
  return false;
}
// Inbound most are in lanes: out of their loop.
[[gnu::noinline]] bool Translator::recognise_alone(uint16_t i, rte_mbuf& m, bool by_port) noexcept {
  return recognise_one<Direction::kInbound>(i, m, by_port);
}

// The flow of a plain one that is in no lane; others have theirs in their Item.
inline pxio::Flow* Translator::find_one(uint16_t i, bool plain) noexcept {
  if (plain) [[likely]] return flows_.find(plain_[i].key, hashes_[i]);
  look_up(items_[i]);
  return nullptr;
}
[[gnu::noinline]] pxio::Flow* Translator::find_alone(uint16_t i, bool plain) noexcept { return find_one(i, plain); }

// Where all is UDP or IPv6 lanes are tried in one burst of sixteen, until something would have stood in one.
inline void Translator::rest_lanes(bool tried, uint32_t in_lane, uint32_t plain) noexcept {
  if (tried) {
    if (in_lane == 0) lanes_rest_ = 15;
  } else if (lanes_rest_ != 0) {
    --lanes_rest_;
    if (plain == 0) return;
    const PlainSegment& s = plain_[static_cast<size_t>(std::countr_zero(plain))];
    if (s.l3_len == kIpv4HeaderLen && s.l4_len == 32) lanes_rest_ = 0;
  }
}

void Translator::process(Direction d, rte_mbuf** pkts, uint16_t n, Nanos now,
                         std::span<rte_mbuf* const> next) noexcept {
  now_ = now;
  now_us_ = to_micros(now);
  now_ticks_ = to_ticks(now);
  const bool by_port = policy_->sides == Sides::kByPort && policy_->link == Link::kEthernet;
  touch_buffers(pkts, n);
  if (d == Direction::kOutbound) {
    touch_headers(pkts, n);
    burst<Direction::kOutbound, false>(pkts, n, by_port, next, {});
  } else if (by_port && recognise_lanes_ != nullptr && lanes_rest_ == 0) {
    const InLanes lanes = recognise_lanes_(pkts, n, lanes_);
    const bool runs = 2 * std::popcount(lanes.follows) > n;  // it pays where most follow
    const uint32_t plain = runs ? burst<Direction::kInbound, true>(pkts, n, by_port, next, lanes)
                                : burst<Direction::kInbound, false>(pkts, n, by_port, next, lanes);
    rest_lanes(true, lanes.plain | lanes.merged, plain);
  } else {
    touch_headers(pkts, n);
    rest_lanes(false, 0, burst<Direction::kInbound, false>(pkts, n, by_port, next, {}));
  }
  merger_.end_burst(now);
  if (offered_n_ != 0) run_stages();
}

// Each pass loads what the next needs: within one the loads of all packets are under way together. Plain
// loads, since of more than some 20 prefetches at a time processors drop the rest.
template <Direction kWay, bool kRuns>
[[gnu::noinline]] uint32_t Translator::burst(rte_mbuf** pkts, uint16_t n, bool by_port, std::span<rte_mbuf* const> next,
                                  const InLanes lanes) noexcept {
  constexpr bool kIn = kWay == Direction::kInbound;
  const auto is = [](uint32_t bits, unsigned i) { return (bits >> i & 1) != 0; };
  const auto lane_key = [this](uint16_t i) {
    FlowKey key;
    key.addr[0] = lanes_.addr[i];
    key.ports = lanes_.ports[i];
    key.version = 4;
    return key;
  };
  const uint32_t in_lane = lanes.plain | lanes.merged;
  uint32_t plain = in_lane, datagrams = 0;
  for (uint16_t i = 0; i < n; ++i) {
    if (i < next.size()) {
      rte_prefetch0(next[i]);
      rte_prefetch0(&next[i]->next);
    }
    if (kRuns && is(lanes.follows, i)) continue;
    if (kIn && is(in_lane, i)) [[likely]] {
      hashes_[i] = flows_.hash(lane_key(i));
      flows_.prefetch(hashes_[i]);
    } else if (by_port && datagram(i, *pkts[i], kWay)) {
      datagrams |= 1u << i;
    } else if (kIn ? recognise_alone(i, *pkts[i], by_port) : recognise_one<kWay>(i, *pkts[i], by_port)) {
      plain |= 1u << i;
    }
  }
  for (uint16_t i = 0; i < n; ++i) {
    if (kRuns && is(lanes.follows, i)) {
      plain_flows_[i] = plain_flows_[i - 1];
      continue;
    }
    if (is(datagrams, i)) {
      plain_flows_[i] = nullptr;
      continue;
    }
    Flow* f = !kIn             ? find_one(i, is(plain, i))
              : is(in_lane, i) ? flows_.find(lane_key(i), hashes_[i])
                               : find_alone(i, is(plain, i));
    plain_flows_[i] = f;
    if (f == nullptr) continue;
    if (kIn) {
      merger_.prefetch(*f);
    } else {
      rte_prefetch0(f);
    }
  }
  const auto followers = [&lanes](uint32_t i) {  // of the packet in lane i
    return static_cast<uint32_t>(std::countr_one(static_cast<uint32_t>(uint64_t{lanes.follows} >> (i + 1))));
  };
  if (kIn) {
    uint32_t opening = 0, closing = 0;  // packets under construction: how many begin, and a bit for each that ends
    const Flow* before = nullptr;
    uint32_t in_row = 0;
    for (uint16_t i = 0; i < n; ++i) {
      if (kRuns && is(lanes.follows, i)) continue;
      const Flow* f = is(lanes.merged, i) ? nullptr : plain_flows_[i];
      const bool again = f == std::exchange(before, f);
      if (f == nullptr) continue;
      if (again) {
        rte_prefetch0(&pkts[i - 1]->next);
        in_row += 1 + (kRuns ? followers(i) : 0);
        if (f->hold != 0 && merger_.prefetch_last(*f, in_row)) closing |= 1u << i;
        continue;
      }
      in_row = 1 + (kRuns ? followers(i) : 0);
      if (f->hold == 0) {
        ++opening;
      } else if (merger_.prefetch_last(*f, in_row)) {
        closing |= 1u << i;
      }
    }
    merger_.prefetch_free(opening);
    for (; closing != 0; closing &= closing - 1) merger_.prefetch_head(*plain_flows_[std::countr_zero(closing)]);
  }
  Taken taken;
  const bool room = kIn && merger_.has_room();
  const uint32_t in_express = room ? lanes.plain : 0;
  const auto prefetch_next = [&next](uint32_t i) {
    if (i >= next.size()) return;
    rte_prefetch0(data(*next[i]));
    rte_prefetch0(data(*next[i]) + 64);
  };
  for (uint16_t i = 0; i < n; ++i) {
    prefetch_next(i);
    if (!kIn) {
      if (is(plain, i) && express_out(plain_flows_[i], *pkts[i], plain_[i], taken)) continue;
    } else if (is(in_express, i)) [[likely]] {
      if (express<false, true>(plain_flows_[i], *pkts[i], lanes_.frame[i], sizeof(EthernetHeader),
                               LaneFields(lanes_, i))) {
        taken.lanes |= 1u << i;
        if (kRuns && is(lanes.follows >> 1, i)) {
          for (uint32_t k = express_run(pkts, i + 1u, followers(i), taken); k != 0; --k) prefetch_next(++i);
        }
        continue;
      }
    } else if (is(lanes.merged, i)) {
      if (express_merged(i, *pkts[i], taken)) continue;
    } else if (room && is(plain, i) && express_other(i, *pkts[i], taken)) {
      continue;
    }
    if (is(datagrams, i)) {
      note_packet(taken, kWay, items_[i].v.ip_len, pkts[i]->pkt_len);
      if (!stages_.empty()) {
        offer(PktPtr(pkts[i]), items_[i]);
        continue;
      }
    } else if (is(plain, i)) {
      examine(items_[i], *pkts[i], kWay);
      look_up(items_[i]);
    }
    dispatch(items_[i], PktPtr(pkts[i]));
  }
  if (kIn) note_lanes(lanes, taken);
  note_sizes(taken, kWay);
  (kIn ? count_.in_pkts : count_.out_pkts) += taken.pkts;
  (kIn ? count_.in_bytes : count_.out_bytes) += taken.bytes;
  if (kIn) merger_.note_plain(taken.segs, taken.bulk);
  return plain;
}

PktPtr Translator::fit(PktPtr pkt, uint32_t l2_len, Direction d) noexcept {
  // Most are no larger than every path takes, and needn't be parsed for that.
  if (pkt->pkt_len <= l2_len + std::min(policy_->inside_mtu, policy_->assumed_path())) return pkt;
  Item it;
  it.v = parse(*pkt, policy_->link);
  it.dir = d;
  if (const uint16_t mtu = whole_limit(it, *pkt); it.v.ip_len > mtu) too_big(std::move(pkt), it, mtu);
  return pkt;
}

void Translator::pass_on(PktPtr pkt, const PacketView& v, Direction d) noexcept {
  Item it;
  it.v = v;
  it.dir = d;
  pass_opaque(std::move(pkt), it);
}

void Translator::run_stages() noexcept {
  for (const auto& stage : stages_) {
    stage->process({offered_.data(), offered_n_}, now_);
    uint16_t left = 0;
    for (uint16_t i = 0; i < offered_n_; ++i) {
      if (offered_[i].pkt == nullptr) continue;
      offered_[left] = offered_[i];
      offered_items_[left++] = offered_items_[i];
    }
    offered_n_ = left;
  }
  for (uint16_t i = 0; i < offered_n_; ++i) {
    Item& it = *offered_items_[i];
    PktPtr pkt(offered_[i].pkt);
    if (it.v.kind == Kind::kIcmp && it.v.why == Opaque::kNone && is_too_big(*pkt, it.v)) {
      pass(std::move(pkt), it, &Counters::ptb_passed);
    } else {
      pass_opaque(std::move(pkt), it);
    }
  }
  offered_n_ = 0;
}

void Translator::examine(Item& it, rte_mbuf& m, Direction port_dir) noexcept {
  // Made in its place: what was just written in bytes is slow to copy. Key and hash are for what has a flow.
  new (&it.v) PacketView(parse(m, policy_->link));
  it.flow = nullptr;
  it.doubtful = false;
  it.crosses = true;
  classify(it, m, port_dir);
}

void Translator::look_up(Item& it) noexcept {
  if (!it.v.has_flow() || !it.crosses) return;
  it.flow = flows_.find(it.key, it.hash);
  if (it.flow != nullptr) rte_prefetch0(it.flow);
}

// Direction, key and hash.
void Translator::classify(Item& it, const rte_mbuf& m, Direction port_dir) noexcept {
  const PacketView& v = it.v;
  it.dir = port_dir;
  if (policy_->sides == Sides::kByPrefix) {
    it.crosses = false;
    if (v.version != 0) {
      const bool from = listed(policy_->include, ip_src(m, v.l2_len, v.version), v.version);
      const bool to = listed(policy_->include, ip_dst(m, v.l2_len, v.version), v.version);
      it.crosses = from != to;
      it.dir = from ? Direction::kOutbound : Direction::kInbound;
    }
  }
  const uint32_t ip_len = v.version != 0 ? v.ip_len : m.pkt_len - std::min<uint32_t>(m.pkt_len, v.l2_len);
  ++count_.size_in[index(it.dir)][size_bin(ip_len)];
  if (it.dir == Direction::kInbound) {
    ++count_.in_pkts;
    count_.in_bytes += m.pkt_len;
  } else {
    ++count_.out_pkts;
    count_.out_bytes += m.pkt_len;
  }
  if (v.has_flow() && it.crosses) {
    it.key = make_key(m, v, it.dir);
    it.hash = flows_.hash(it.key);
    flows_.prefetch(it.hash);
  }
}

void Translator::dispatch(Item& it, PktPtr pkt) noexcept {
  const PacketView& v = it.v;
  if (!it.crosses && v.version != 0) return pass(std::move(pkt), it, &Counters::pass_both_inside);
  if (!v.has_flow()) {
    // Later fragments bear no ports: anything held might be of their flow.
    if (it.dir == Direction::kInbound && tcp_fragment(*pkt, v)) merger_.flush_all(End::kOther, now_);
    if (v.kind == Kind::kIcmp) return icmp(it, std::move(pkt));
    if (!stages_.empty() && (v.kind == Kind::kUdp || (v.kind == Kind::kFragment && !tcp_fragment(*pkt, v))))
      return offer(std::move(pkt), it);
    return pass_opaque(std::move(pkt), it);
  }
  // A packet before this one in the burst may have opened the flow.
  if (it.flow == nullptr || it.flow->renewed) learn(it);
  if (it.flow != nullptr) {
    it.flow->last_seen = to_ticks(now_);
    if (it.flow->merge_cap > policy_->inside_mtu) set_merge_cap(*it.flow, policy_->inside_mtu);
    note_end(it);
  }
  if (it.dir == Direction::kInbound) {
    inbound(it, std::move(pkt));
  } else {
    outbound(it, std::move(pkt));
  }
}

// FIN and RST make a flow short-lived. A reset counts only where its receiver would take it (RFC 5961,
// section 3.2), and no longer when data goes on.
void Translator::note_end(Item& it) noexcept {
  const PacketView& v = it.v;
  Flow& f = *it.flow;
  if (v.kind != Kind::kTcp) return;
  if ((v.flags & kRst) != 0) {
    const bool in = it.dir == Direction::kInbound;
    if (in ? !f.seq_known || v.seq == f.next_seq : !f.out_known || v.seq == f.out_next) f.fins |= Flow::kReset;
  } else if ((v.flags & kFin) != 0) {
    f.fins |= static_cast<uint8_t>(1 << index(it.dir));
  } else if (v.payload_len != 0) {
    f.fins &= static_cast<uint8_t>(~Flow::kReset);
  }
}

void Translator::inbound(Item& it, PktPtr pkt) noexcept {
  const PacketView& v = it.v;
  Flow* f = it.flow;
  if (v.kind == Kind::kTcpOpaque) return pass_opaque(std::move(pkt), it);
  if ((v.flags & kSyn) != 0) {
    if (f != nullptr) merger_.flush(*f, End::kFlags, now_);
    syn(it, *pkt);
    if (v.ip_len > policy_->inside_mtu) return too_big(std::move(pkt), it, policy_->inside_mtu);
    return push(std::move(pkt), it.dir);
  }
  if (f == nullptr) {
    const uint16_t segment = segment_payload(*pkt, v);  // merged by the port, not by our leave
    if (segment < v.payload_len && splittable(v))
      return recut(it, std::move(pkt), uint32_t{v.l3_len} + v.l4_len + segment);
    const uint32_t most = (pkt->ol_flags & RTE_MBUF_F_RX_LRO) != 0 ? policy_->assumed_path() : policy_->inside_mtu;
    if (v.ip_len > most && splittable(v)) return recut(it, std::move(pkt), policy_->assumed_path());
    Count why = v.payload_len != 0 ? &Counters::pass_tcp_unknown : &Counters::pass_tcp_pure_ack;
    if (!translates(it.key)) why = &Counters::pass_excluded;
    return pass(std::move(pkt), it, why);
  }
  if ((v.flags & kAck) != 0) note_ack(*f, v.ack);
  f->last_heard = static_cast<uint8_t>(to_ticks(now_) / 16);
  const bool bad = (pkt->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD;
  if ((pkt->ol_flags & RTE_MBUF_F_RX_LRO) != 0 && pkt->tso_segsz == 0) note_segment(*pkt, it);
  if (f->jumbo) count_.engine.merge_bulk_in += bulk_segments(*pkt, v);

  // What can't be merged leaves alone, and what is held for the flow leaves first.
  auto alone = [&](End end, Count why) {
    merger_.flush(*f, end, now_);
    const bool lro = (pkt->ol_flags & RTE_MBUF_F_RX_LRO) != 0;
    if (v.ip_len > (lro ? f->merge_cap : std::max(f->merge_cap, policy_->outside_mtu)) && splittable(v))
      return recut(it, std::move(pkt), f->merge_cap);
    pass(std::move(pkt), it, why);
  };
  if (v.payload_len == 0) return alone(End::kFlags, &Counters::pass_tcp_pure_ack);
  if (bad) return alone(End::kChecksum, &Counters::pass_tcp_bad_checksum);
  const uint32_t end_seq = v.seq + v.payload_len;
  if (!f->seq_known) {
    f->seq_known = true;
    f->next_seq = v.seq;
  }
  const bool old = seq_before(v.seq, f->next_seq);
  if (!old || seq_before(f->next_seq, end_seq)) {
    f->old_run = 0;
  } else if (++f->old_run == UINT8_MAX) {
    f->next_seq = end_seq;  // a damaged header once set it too far ahead
    f->old_run = 0;
  }
  auto passes = [&](End end, Count why) {
    if (seq_before(f->next_seq, end_seq)) f->next_seq = end_seq;
    alone(end, why);
  };
  if ((v.flags & kAlone) != 0 || (v.flags & kAck) == 0) return passes(End::kFlags, &Counters::pass_tcp_flags);
  if (v.signed_) return passes(End::kOptions, &Counters::pass_tcp_signed);
  if (v.bad_options || v.mptcp) return passes(End::kOptions, &Counters::pass_tcp_options);
  if (old || v.payload_len == 1) return passes(End::kGap, &Counters::pass_tcp_old);
  if (f->jumbo && merge_on(it, pkt)) return;
  if (!f->jumbo || v.ip_len > f->merge_cap) return passes(End::kOther, &Counters::pass_tcp_small_mss);
  merger_.add(*f, std::move(pkt), v, now_);
}

void Translator::outbound(Item& it, PktPtr pkt) noexcept {
  const PacketView& v = it.v;
  Flow* f = it.flow;
  if (v.kind == Kind::kTcpOpaque) return pass_opaque(std::move(pkt), it);
  if ((v.flags & kSyn) != 0) {
    syn(it, *pkt);
    if (const uint16_t most = whole_limit(it, *pkt); v.ip_len > most) return too_big(std::move(pkt), it, most);
    return push(std::move(pkt), it.dir);
  }
  if (f != nullptr) {
    note_outbound(it, *pkt);
    if (f->probe_due) [[unlikely]] report_path(it, *pkt);
  }
  const uint32_t headers = uint32_t{v.l3_len} + v.l4_len;
  const uint32_t options = v.l4_len - kTcpHeaderLen;
  uint32_t limit_ip = policy_->assumed_path(), limit_mss = UINT16_MAX;
  if (f != nullptr) {
    limit_ip = it.doubtful ? limit_ip : path_limit(*f);
    limit_mss = f->peer_mss;
  } else if (v.ip_len > limit_ip) {
    limit_ip = std::min<uint32_t>(policy_->safe_mtu, limit_ip);
    if (const uint16_t p = pmtu_.find(outside_of(it.key), to_ticks(now_)).mtu; p != 0)
      limit_ip = std::min<uint32_t>(limit_ip, p);
    const Handshake* h = handshakes_.find(it.key, it.hash);
    if (h != nullptr && h->end[index(Direction::kInbound)].seen)
      limit_mss = h->end[index(Direction::kInbound)].mss;
  }
  if (v.payload_len == 0) return pass(std::move(pkt), it, &Counters::pass_tcp_pure_ack);
  // Nobody's segments leave larger than their sender made them: it may know of a smaller path.
  const uint16_t segment = segment_payload(*pkt, v);
  const bool merged = segment < v.payload_len;
  const uint32_t room = piece_of(limit_ip, limit_mss, headers, options), piece = std::min<uint32_t>(room, segment);
  if (v.payload_len <= piece) return pass(std::move(pkt), it, &Counters::pass_tcp_fits);

  const uint16_t most = whole_limit(it, *pkt);
  const bool fits = v.ip_len <= most;
  if (!splittable(v)) {
    if (!fits && !merged) return too_big(std::move(pkt), it, most);
    return pass(std::move(pkt), it, v.signed_ ? &Counters::pass_tcp_signed : &Counters::pass_tcp_flags);
  }
  if (piece == 0 || pieces(v.payload_len, piece) > (merged ? kMaxSplit : policy_->max_split_segs)) {
    if (fits) return pass(std::move(pkt), it, &Counters::pass_tcp_small_mss);
    return drop(std::move(pkt), &Counters::drop_split_segments);
  }
  if (split_and_push(pkt, it, piece, merged ? cwr_rule_merged(f) : cwr_rule(f))) {
    if (merged && segment <= room) ++count_.merge_recut;
  } else if (pkt) {
    // Damaged on the way: whole if that is possible, for the receiver to find out.
    if (fits) return pass(std::move(pkt), it, &Counters::pass_tcp_bad_checksum);
    drop(std::move(pkt), &Counters::drop_split_checksum);
  }
}

// True: the pieces are on their way, cut here or to be cut by the port. False: the checksum is wrong and
// `pkt` still there; or it was dropped for want of buffers.
bool Translator::split_and_push(PktPtr& pkt, const Item& it, uint32_t piece, CwrRule cwr) noexcept {
  const PacketView& v = it.v;
  const auto n = static_cast<uint16_t>(pieces(v.payload_len, piece));
  if (can_cut(way(it.dir).segmenting(), *pkt, v, piece, cwr)) {
    // Who cuts makes new checksums without a look at the old one.
    const bool good = (pkt->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD;
    if (!good && !l4_checksum_holds(*pkt, v)) return false;
    pkt->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
    leave_to_port(std::move(pkt), v, it.dir, piece, n);
    return true;
  }
  std::array<rte_mbuf*, kMaxSplit> out;
  rte_mempool* pool = pool_for(buffers_, v.header_len() + piece);
  switch (split(*pkt, v, static_cast<uint16_t>(piece), n, cwr, pool, out.data())) {
    case SplitResult::kBadChecksum:
      return false;
    case SplitResult::kNoBuffer:
      drop(std::move(pkt), &Counters::drop_no_buffer);
      return false;
    case SplitResult::kDone:
      break;
  }
  ++count_.engine.split_in_pkts;
  count_.engine.split_out_segs += n;
  pkt.reset();
  for (uint16_t i = 0; i < n; ++i) push(PktPtr(out[i]), it.dir);
  return true;
}

// A packet that came merged and is larger than its receiver takes: cut at the borders of its segments.
void Translator::recut(Item& it, PktPtr pkt, uint32_t limit) noexcept {
  const PacketView& v = it.v;
  const uint32_t headers = uint32_t{v.l3_len} + v.l4_len;
  const uint32_t room = limit > headers ? limit - headers : 0;
  const bool lro = (pkt->ol_flags & RTE_MBUF_F_RX_LRO) != 0;
  uint32_t seg = lro ? pkt->tso_segsz : 0;
  if (seg == 0 || seg > room) seg = room;
  const uint32_t piece = seg == 0 ? 0 : room / seg * seg;
  if (piece == 0 || pieces(v.payload_len, piece) > kMaxSplit)
    return drop(std::move(pkt), &Counters::drop_split_segments);
  if (it.flow != nullptr) {
    const uint32_t end = v.seq + v.payload_len;
    if (!it.flow->seq_known || seq_before(it.flow->next_seq, end)) it.flow->next_seq = end;
    it.flow->seq_known = true;
  }
  // Segments in pieces that could take no further one.
  const uint64_t full = seg < kBulkPayload || it.flow == nullptr || !it.flow->jumbo
                            ? 0 : uint64_t{v.payload_len / piece} * (piece / seg);
  if (split_and_push(pkt, it, piece, lro ? cwr_rule_merged(it.flow) : CwrRule::kEverySegment)) {
    ++count_.merge_recut;
    count_.engine.merge_bulk_full += full;
    if (piece + headers >= 8000) count_.engine.merge_bulk_jumbo += full;
  } else if (pkt) {
    if (v.ip_len <= policy_->inside_mtu) return push(std::move(pkt), it.dir);
    drop(std::move(pkt), &Counters::drop_split_checksum);
  }
}

// What the port has merged never fits what is held by chance: as many of its segments as there is room for fill that
// up, what makes whole packets leaves with as many as they take, and the rest is held. True: it is done; `pkt` and
// `it.v` may have become a part. False: nothing has been done, and the packet is as good as any.
bool Translator::merge_on(Item& it, PktPtr& pkt) noexcept {
  PacketView& v = it.v;
  Flow& f = *it.flow;
  const uint16_t segment = segment_payload(*pkt, v);
  if (segment == v.payload_len || segment < kLeastFull) [[likely]] return false;
  const uint32_t headers = uint32_t{v.l3_len} + v.l4_len;
  const uint32_t room = f.merge_cap > headers ? f.merge_cap - headers : 0;
  if (segment > room || pkt->data_len < v.header_len()) return false;
  const uint32_t front = merger_.lacking(f, *pkt, v, segment);
  if (v.payload_len <= room && (front == 0 || v.payload_len <= front)) return false;
  // CWR would have to stay with the first segment.
  if ((v.flags & kCwr) != 0 && cwr_rule_merged(&f) == CwrRule::kFirstOnly) return false;
  const bool good = (pkt->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  if (!good && !l4_checksum_holds(*pkt, v)) return false;
  pkt->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;

  PacketView part;
  const auto pool = [&](uint32_t len) { return pool_for(buffers_, v.header_len() + len); };
  const auto parted = [this] {
    ++count_.merge_recut;
    ++count_.engine.split_in_pkts;
    count_.engine.split_out_segs += 2;
  };
  if (front != 0) {
    PktPtr head = take_front(*pkt, v, front, segment, pool(front), part);
    if (!head) return false;
    parted();
    merger_.add(f, std::move(head), part, now_);
  }
  if (v.payload_len <= room) {
    merger_.add(f, std::move(pkt), v, now_);
    return true;
  }
  merger_.flush(f, End::kOther, now_);
  const uint32_t back = v.payload_len % (room / segment * segment);
  PktPtr rest;
  if (back != 0 && back % segment == 0 && (v.flags & (kPsh | kFin)) == 0)
    rest = take_back(*pkt, v, back, segment, pool(back), part);
  if (rest) parted();
  recut(it, std::move(pkt), f.merge_cap);
  if (rest) merger_.add(f, std::move(rest), part, now_);
  return true;
}

// Which segments a packet was merged of where its port doesn't know: as long as those that the flow had
// before, or as the outside takes.
void Translator::note_segment(rte_mbuf& m, const Item& it) const noexcept {
  const PacketView& v = it.v;
  const uint32_t headers = uint32_t{v.l3_len} + v.l4_len;
  const uint32_t room = policy_->assumed_path() - headers;
  const uint16_t known = it.flow->full_payload;
  const uint32_t segment = known >= kBulkPayload && known <= room ? known : room;
  if (segment < v.payload_len) m.tso_segsz = static_cast<uint16_t>(segment);
}

// Unchanged. Larger than the port takes: fragmented, answered or dropped.
void Translator::pass(PktPtr pkt, const Item& it, Count why) noexcept {
  const uint16_t mtu = whole_limit(it, *pkt);
  // What came merged leaves as the segments that it was made of: those must fit.
  const bool merged = (pkt->ol_flags & RTE_MBUF_F_RX_LRO) != 0 && pkt->tso_segsz != 0;
  const uint32_t l4 = it.v.kind == Kind::kUdp ? sizeof(UdpHeader) : it.v.l4_len;
  const bool superframe = merged && (it.v.kind == Kind::kUdp || it.v.has_flow()) &&
                          it.v.l3_len + l4 + pkt->tso_segsz <= mtu;
  if (it.v.ip_len > mtu && !superframe) {
    // Cut short by a capture: what it was can't be told, and nothing can be made of it.
    if (it.v.l2_len + it.v.ip_len <= pkt->pkt_len && it.crosses) return too_big(std::move(pkt), it, mtu);
  }
  ++(count_.*why);
  push(std::move(pkt), it.dir);
}

void Translator::pass_opaque(PktPtr pkt, Item& it) noexcept {
  if (it.dir == Direction::kInbound && it.flow != nullptr) merger_.flush(*it.flow, End::kOther, now_);
  Count why = &Counters::pass_not_tcp;
  switch (it.v.why) {
    case Opaque::kNotIp: why = &Counters::pass_not_ip; break;
    case Opaque::kFragment: why = &Counters::pass_fragment; break;
    case Opaque::kIpOptions: why = &Counters::pass_ip_options; break;
    case Opaque::kIpChecksum: why = &Counters::pass_ip_checksum; break;
    case Opaque::kCutShort: why = &Counters::pass_cut_short; break;
    case Opaque::kLengths: why = &Counters::pass_lengths; break;
    case Opaque::kNotTcp:
    case Opaque::kNone: break;
  }
  pass(std::move(pkt), it, why);
}

void Translator::drop(PktPtr pkt, Count why) noexcept {
  ++(count_.*why);
  pkt.reset();
}

// Can't be made smaller by merging's reverse: fragmented where IPv4 allows it, else its sender is told.
void Translator::too_big(PktPtr pkt, const Item& it, uint16_t mtu) noexcept {
  const PacketView& v = it.v;
  // Its addresses can't be trusted, and fragments would bear a good checksum.
  if (v.version == 4 && !ipv4_header_ok(header_at<Ipv4Header>(*pkt, v.l2_len)))
    return drop(std::move(pkt), &Counters::drop_too_big);
  const bool merged = (pkt->ol_flags & RTE_MBUF_F_RX_LRO) != 0;  // not one datagram
  if (v.version == 4 && !merged && (header_at<Ipv4Header>(*pkt, v.l2_len).frag.host() & kIpDf) == 0) {
    std::array<rte_mbuf*, kMaxFragments> out;
    rte_mempool* pool = pool_for(buffers_, uint32_t{mtu} + v.l2_len);
    const uint16_t n = fragment_ipv4(*pkt, v, mtu, pool, out.data());
    if (n == 0) return drop(std::move(pkt), &Counters::drop_no_buffer);
    ++count_.frag_in_pkts;
    count_.frag_out_pkts += n;
    pkt.reset();
    for (uint16_t i = 0; i < n; ++i) push(PktPtr(out[i]), it.dir);
    return;
  }
  if (it.dir == Direction::kOutbound) {
    if (take_icmp_token()) {
      if (PktPtr error = make_too_big(*pkt, v, mtu, *policy_, buffers_.small)) {
        ++count_.icmp_sent;
        push(std::move(error), Direction::kInbound);
      }
    } else {
      ++count_.icmp_limited;
    }
  }
  drop(std::move(pkt), &Counters::drop_too_big);
}

// A bucket of one second's worth, filled up as time goes by.
bool Translator::take_icmp_token() noexcept {
  const uint32_t rate = policy_->icmp_per_second;
  if (rate == 0) return false;
  const auto gained = static_cast<uint64_t>((now_ - icmp_refill_).count()) * rate / 1'000'000'000u;
  if (gained != 0) {
    icmp_tokens_ = static_cast<uint32_t>(std::min<uint64_t>(rate, icmp_tokens_ + gained));
    icmp_refill_ = now_;
  }
  if (icmp_tokens_ == 0) return false;
  --icmp_tokens_;
  return true;
}

void Translator::icmp(Item& it, PktPtr pkt) noexcept {
  if (it.v.why != Opaque::kNone) return pass_opaque(std::move(pkt), it);
  if (!is_too_big(*pkt, it.v)) {
    if (!stages_.empty() && it.dir == Direction::kInbound) return offer(std::move(pkt), it);
    return pass(std::move(pkt), it, &Counters::pass_not_tcp);
  }
  const auto e = read_too_big(*pkt, it.v, it.dir);
  Flow* f = e ? flows_.find(e->key, flows_.hash(e->key)) : nullptr;
  if (f == nullptr) {
    if (!stages_.empty() && it.dir == Direction::kInbound) return offer(std::move(pkt), it);
    return pass(std::move(pkt), it, &Counters::ptb_passed);
  }
  if (it.dir == Direction::kInbound) {
    take_too_big_from_outside(*e, *f);
    pkt.reset();  // meant for the gateway; counted as ptb_taken or ptb_ignored
  } else {
    take_too_big_from_inside(*e, *f);
    push(std::move(pkt), it.dir);
  }
}

void Translator::housekeeping(Nanos now) noexcept {
  const Ticks t = to_ticks(now);
  const Ticks idle = to_ticks(policy_->flow_timeout), closed = to_ticks(std::chrono::seconds(10));
  // The whole table once in about 16 s, where this is called every millisecond.
  flows_.sweep(flows_.touched() / 16384 + 4, [&](Flow& f) {
    if (f.hold != 0) return;
    const Ticks quiet = t - f.last_seen;
    if (quiet > idle || (quiet > closed && (f.closing() || f.fins >= Flow::kReset))) {
      ++count_.engine.flow_aged;
      return flows_.erase(f);
    }
    // What a new policy says, and what has aged.
    const FlowKey key = flows_.key_of(f);
    set_merge_cap(f, f.merge_cap);
    f.jumbo = f.jumbo && translates(key);
    f.path_mtu = pmtu_.find(outside_of(key), t).mtu;
    if (policy_->probing.probe) look_for_elephant(f, key, t);
  });
  handshakes_.age(t, 64);
  for (const auto& stage : stages_) stage->housekeeping(now);
}

void Translator::flush_expired(Nanos now) noexcept {
  merger_.flush_expired(now);
  for (const auto& stage : stages_) stage->flush_expired(now);
}

std::optional<Nanos> Translator::next_deadline() const noexcept {
  std::optional<Nanos> first = merger_.next_deadline();
  for (const auto& stage : stages_) {
    const auto d = stage->next_deadline();
    if (d && (!first || *d < *first)) first = d;
  }
  return first;
}

void Translator::drain(Nanos now) noexcept {
  merger_.flush_all(End::kDrain, now);
  for (const auto& stage : stages_) stage->drain(now);
}

void Translator::apply(const Policy& policy, Nanos now) noexcept {
  merger_.flush_all(End::kDrain, now);
  policy_ = &policy;
  merger_.set_limits(merge_limits(policy));
  pmtu_.set_times(policy.pmtu_timeout, policy.probing.retry);
  icmp_tokens_ = std::min(icmp_tokens_, policy.icmp_per_second);
  for (const auto& stage : stages_) stage->apply(policy, now);
}

const Counters& Translator::counters() noexcept {
  for (const auto& stage : stages_) stage->count();
  count_.to_inside_pkts = inside_.pushed_pkts();
  count_.to_inside_bytes = inside_.pushed_bytes();
  count_.to_outside_pkts = outside_.pushed_pkts();
  count_.to_outside_bytes = outside_.pushed_bytes();
  count_.size_out = {inside_.sizes(), outside_.sizes()};
  count_.drop_tx_full = inside_.dropped_full() + outside_.dropped_full();
  count_.flows = flows_.size();
  count_.held_pkts = merger_.held();
  count_.handshakes = handshakes_.size();
  return count_;
}

}  // namespace pxgw
