// SPDX-License-Identifier: BSD-3-Clause
// The Translator's knowledge of connections: SYNs and their MSS, flows.
#include <algorithm>
#include <cstring>

#include "pxgw/dp/translator.h"
#include "pxio/dp/checksum.h"
#include "pxio/dp/tcp_options.h"

namespace pxgw {

using namespace pxio;

namespace {

// RFC 9293, section 3.7.1: what an end takes that says nothing. Less isn't raised: nobody would want
// jumbos cut to that.
constexpr uint16_t default_mss(unsigned version) { return version == 4 ? 536 : 1220; }

}  // namespace

PathKey Translator::inside_of(const FlowKey& k) noexcept {
  if (k.version == 4) return {.addr = {k.addr[0] & 0xffffffff, 0}, .version = 4};
  return {.addr = {k.addr[0], k.addr[1]}, .version = 6};
}

PathKey Translator::outside_of(const FlowKey& k) noexcept {
  if (k.version == 4) return {.addr = {k.addr[0] >> 32, 0}, .version = 4};
  return {.addr = {k.addr[2], k.addr[3]}, .version = 6};
}

// What include and exclude say of a flow.
bool Translator::translates(const FlowKey& key) const noexcept {
  if (policy_->exclude.empty() && policy_->include.empty()) return true;
  const PathKey in = inside_of(key), out = outside_of(key);
  const uint8_t *a = in.bytes(), *b = out.bytes();
  if (listed(policy_->exclude, a, key.version) || listed(policy_->exclude, b, key.version)) return false;
  return policy_->include.empty() || listed(policy_->include, a, key.version);
}

void Translator::set_merge_cap(Flow& f, uint32_t cap) const noexcept {
  f.merge_cap = static_cast<uint16_t>(std::min<uint32_t>(cap, policy_->inside_mtu));
  f.jumbo = f.merge_cap > policy_->assumed_path();
}

void Translator::syn(Item& it, rte_mbuf& m) noexcept {
  const PacketView& v = it.v;
  if (!translates(it.key)) {
    ++count_.pass_excluded;
    return;
  }
  const Ticks now = to_ticks(now_);
  Handshake* h = handshakes_.find(it.key, it.hash);
  if (v.signed_ || v.bad_options) {
    ++(v.signed_ ? count_.syn_left_signed : count_.syn_left_options);
    if (h != nullptr) handshakes_.erase(*h);
    return;
  }
  const bool pure = (v.flags & kAck) == 0;
  const size_t from = index(it.dir), to = index(reverse(it.dir));
  // The smallest where an end names several: it takes that in any reading.
  uint16_t mss = v.mss_off == 0 ? default_mss(v.version) : UINT16_MAX;
  for_each_mss(data(m) + v.l4_off(), v.l4_len, [&](unsigned at) {
    be16 value;
    std::memcpy(&value, data(m) + v.l4_off() + at, 2);
    mss = std::min(mss, value.host());
  });
  if (pure) {
    const bool repeated = h != nullptr && h->end[from].seen && h->end[from].isn == v.seq;
    const bool simultaneous = h != nullptr && !h->end[from].seen && h->end[to].initiator;
    if (!repeated && !simultaneous) h = handshakes_.start(it.key, it.hash, now);
    if (h == nullptr) ++count_.syn_table_full;
  } else if (h != nullptr && !(h->end[to].seen && v.ack - h->end[to].isn == 1)) {
    h = nullptr;  // answers no SYN that we saw
  }
  if (h != nullptr) {
    h->since = now;
    Handshake::End& e = h->end[from];
    e.isn = v.seq;
    e.mss = it.dir == Direction::kOutbound && policy_->assume_inside_mss ? *policy_->assume_inside_mss : mss;
    e.ace = v.flags & (kAe | kCwr | kEce);
    e.seen = true;
    e.initiator |= pure;
    if (it.flow != nullptr) it.flow->renewed = true;
  }
  if (v.mss_off == 0) {
    ++count_.syn_left_no_mss;
    return;
  }
  if (it.dir == Direction::kOutbound) return rewrite_mss(it, m, offered_mtu(it.key));
  // An answer whose question went another way may have its data go there too, where nobody splits.
  // Captures hold both ways.
  if (policy_->sides == Sides::kByPort) {
    if (h == nullptr) return;
    if (it.flow == nullptr && flows_.size() == flows_.capacity()) {
      ++count_.engine.flow_table_full;  // jumbos of a flow that we can't follow would be cut by guess
      return;
    }
  }
  if (mss < default_mss(v.version)) {
    ++count_.syn_left_small;
    return;
  }
  rewrite_mss(it, m, policy_->inside_mtu);
}

// Sets each MSS option to what the MTU allows: only upwards to the inside, only downwards to the outside.
void Translator::rewrite_mss(const Item& it, rte_mbuf& m, uint16_t mtu) noexcept {
  const PacketView& v = it.v;
  const auto room = static_cast<uint16_t>(mtu - base_headers(v));
  auto& tcp = header_at<TcpHeader>(m, v.l4_off());
  auto* bytes = reinterpret_cast<uint8_t*>(&tcp);
  bool changed = false;
  for_each_mss(bytes, v.l4_len, [&](unsigned at) {
    be16 old;
    std::memcpy(&old, bytes + at, 2);
    const bool keep = it.dir == Direction::kInbound ? old.host() >= room : old.host() <= room;
    if (keep) return;
    const be16 now(room);
    std::memcpy(bytes + at, &now, 2);
    // At an odd offset the value straddles two words of the sum.
    const bool odd = at % 2 != 0;
    tcp.checksum = update_checksum(tcp.checksum, odd ? swap_odd(old.raw()) : old.raw(),
                                   odd ? swap_odd(now.raw()) : now.raw());
    changed = true;
  });
  if (!changed) return;
  ++(it.dir == Direction::kInbound ? count_.syn_raised : count_.syn_lowered);
}

// The packet's flow isn't known, or may have given way to a new connection.
void Translator::learn(Item& it) noexcept {
  const PacketView& v = it.v;
  if (it.flow == nullptr) it.flow = flows_.find(it.key, it.hash);
  if (v.kind != Kind::kTcp || (v.flags & (kSyn | kRst)) != 0) return;
  if (it.flow != nullptr && !it.flow->renewed) return;
  if (Handshake* h = handshakes_.find(it.key, it.hash)) {
    if (!h->completed_by(it.dir, v)) return;
    open_flow(it, h);
    if (it.flow != nullptr) return handshakes_.erase(*h);
    // No room: its MSS values hold for what has to be split all the same.
    count_.engine.flow_table_full += !h->refused;
    h->refused = true;
    return;
  }
  if (it.flow != nullptr) {
    it.flow->renewed = false;  // the other connection didn't come about
    return;
  }
  if ((v.flags & kAck) == 0 || v.signed_ || v.bad_options) return;
  if (policy_->assume_inside_mss && translates(it.key)) return open_flow(it, nullptr);
  // Only the inside host's own segments count: a stranger could send the others.
  if (it.dir == Direction::kOutbound && !policy_->jumbo.empty()) {
    if (listed(policy_->jumbo, inside_of(it.key).bytes(), v.version) && translates(it.key))
      open_flow(it, nullptr);
  }
}

void Translator::open_flow(Item& it, const Handshake* h) noexcept {
  const uint32_t base = base_headers(it.v);
  Flow* f = it.flow;
  if (f != nullptr) {
    merger_.flush(*f, End::kOther, now_);
    flows_.erase(*f);
  }
  f = flows_.insert(it.key, it.hash);
  it.flow = f;
  if (f == nullptr) {
    if (h == nullptr) ++count_.engine.flow_table_full;
    return;
  }
  ++count_.engine.flow_created;
  uint32_t cap = policy_->inside_mtu;
  if (h != nullptr) {
    const Handshake::End& in = h->end[index(Direction::kOutbound)];   // sent by the inside end
    const Handshake::End& out = h->end[index(Direction::kInbound)];
    cap = in.mss + base;
    f->peer_mss = out.mss;
    f->ecn = h->ecn();
    f->next_seq = out.isn + 1;
    f->seq_known = true;
    f->out_next = f->out_una = in.isn + 1;
    f->out_known = true;
  } else {
    if (policy_->assume_inside_mss) cap = *policy_->assume_inside_mss + base;
    const uint16_t mtu = policy_->assume_inside_mss ? policy_->assumed_path() : policy_->safe_mtu;
    f->peer_mss = static_cast<uint16_t>(mtu - base);
  }
  const Ticks now = to_ticks(now_);
  f->last_seen = now;
  if (const uint16_t p = pmtu_.find(inside_of(it.key), now).mtu; p != 0)
    cap = std::min<uint32_t>(cap, p);
  set_merge_cap(*f, cap);
  mark(*f, it.v);
  f->path_mtu = pmtu_.find(outside_of(it.key), now).mtu;
}

// Keeps the range of what has been sent, and looks for segments that never arrive at their size.
void Translator::note_outbound(Item& it, const rte_mbuf& m) noexcept {
  const PacketView& v = it.v;
  Flow& f = *it.flow;
  if (!f.out_known) {
    f.out_una = f.out_next = v.seq;
    f.out_known = true;
  }
  const bool oldest_again = v.seq == f.out_una && seq_before(v.seq, f.out_next);
  if (seq_before(f.out_next, v.seq_end())) f.out_next = v.seq_end();
  if (oldest_again && v.payload_len != 0) look_for_black_hole(it, uint32_t{v.l3_len} + v.l4_len + segment_payload(m, v));
}

}  // namespace pxgw
