// SPDX-License-Identifier: BSD-3-Clause
// The Translator's knowledge of paths: how large a packet may leave, and what says that one was too large.
#include <algorithm>
#include <cstring>

#include "pxgw/dp/translator.h"
#include "pxio/dp/merge_plain.h"

namespace pxgw {

using namespace pxio;

namespace {

// Path MTUs below this are not believed (RFC 1191 allows 68; attackers like that). IPv6 links carry 1280.
constexpr uint16_t least_path_mtu(unsigned version) { return version == 4 ? 576 : 1280; }

// Where the path swallows large packets and sends no errors, below what paths are assumed to carry: the
// first step passes tunnels and PPPoE, the second everything (RFC 8200, section 5).
constexpr uint16_t kBlackHoleSteps[] = {1400, 1280};
// Times that the oldest segment is sent again without progress before its size is blamed.
constexpr uint8_t kBlackHoleRepeats = 2;

// Retransmission timeouts are longer on most hosts (Linux: 200 ms and more), probes of a flow's tail shorter.
constexpr Nanos kTimeout = std::chrono::milliseconds(100);

// How long nothing has come from the outside end; wraps after 4 s.
Nanos silent_for(const Flow& f, Nanos now) {
  const Nanos merged(int64_t{to_micros(now) - f.last_in} * 1024);
  const auto other = static_cast<uint8_t>(to_ticks(now) / 16 - f.last_heard);
  return std::min(merged, Nanos((int64_t{other} * 16) << 20));
}

// How long a destination that an operator asked for is looked out for: the sweep over all flows takes 16 s.
constexpr Ticks kWatchFor = to_ticks(std::chrono::seconds(20));

}  // namespace

// The largest size at which a packet leaves in one piece, if it can't be split.
uint16_t Translator::whole_limit(const Item& it, const rte_mbuf& m) const noexcept {
  if (it.dir == Direction::kInbound) return policy_->inside_mtu;
  const uint16_t assumed = policy_->assumed_path();
  if (it.v.version == 0) return policy_->outside_mtu;
  if (it.v.ip_len <= assumed) return assumed;
  if (it.flow != nullptr) return std::max(assumed, path_limit(*it.flow));
  const uint16_t known = pmtu_.find(PathKey::of(it.v.version, ip_dst(m, it.v.l2_len, it.v.version)), to_ticks(now_)).mtu;
  return std::max(assumed, std::min(known, policy_->outside_mtu));
}

// What an outside end may send to us: the way there has been measured, and the way back is as good as it
// gets: whoever sends sees to its own path.
uint16_t Translator::offered_mtu(const FlowKey& k) const noexcept {
  const PmtuCache::Path p = pmtu_.find(outside_of(k), to_ticks(now_));
  return p.confirmed ? std::min(p.mtu, policy_->outside_mtu) : policy_->assumed_path();
}

// The oldest segment of a flow comes again, in IP packets of this length.
void Translator::look_for_black_hole(Item& it, uint32_t ip_len) noexcept {
  Flow& f = *it.flow;
  if (ip_len <= kBlackHoleSteps[1]) return;
  const uint16_t current = path_limit(f), assumed = policy_->assumed_path();
  const uint32_t sent = std::min<uint32_t>({ip_len, current, f.peer_mss + base_headers(it.v)});
  // Nothing comes back, not even what would say that others arrive: a timeout, not a lost packet. Where more is
  // sent than paths are assumed to carry, that is enough; if it was loss, the next probe says so.
  if (sent > assumed && silent_for(f, now_) >= kTimeout) return lower_path(it.key, f, assumed);
  // Others arrive, of this size or smaller ones: this one gets through in any case, and a probe will tell.
  if (sent > assumed) it.doubtful = f.probe_due = true;
  if (++f.rtx_count < kBlackHoleRepeats) return;
  f.rtx_count = 0;
  if (assumed < current) return lower_path(it.key, f, assumed);
  for (const uint16_t step : kBlackHoleSteps)
    if (step < current) return lower_path(it.key, f, step);
}

void Translator::lower_path(const FlowKey& key, Flow& f, uint16_t mtu) noexcept {
  f.path_mtu = mtu;
  f.rtx_count = 0;
  const PathKey to = outside_of(key);
  // What a probe had confirmed is looked at anew, with the next packet.
  f.probe_due = pmtu_.lower(to, mtu, to_ticks(now_)) && policy_->probing.probe;
  ++count_.pmtu_lowered;
  if (mailbox_ != nullptr)
    mailbox_->report({.kind = Report::Kind::kLowered, .pair = pair_, .mtu = mtu, .to = to, .at = now_});
}

// A new flow: its bytes count from here.
void Translator::mark(Flow& f, const PacketView& v) noexcept {
  if (!policy_->probing.probe) return;
  const bool out = !f.out_known;  // its handshake wasn't seen: an inside host's segment made it known
  marks_[flows_.index_of(f)] = {out ? v.seq : f.out_next, out ? v.ack : f.next_seq};
}

void Translator::look_for_elephant(Flow& f, const FlowKey& key, Ticks now) noexcept {
  const Mark& from = marks_[flows_.index_of(f)];
  const uint32_t much = policy_->probing.elephant_bytes;
  const bool elephant = (f.out_known && f.out_next - from.out >= much) ||
                        (f.seq_known && f.next_seq - from.in >= much);
  const PathKey to = outside_of(key);
  if ((elephant && pmtu_.wants_probe(to, now)) || watched(to, now)) f.probe_due = true;
}

bool Translator::watched(const PathKey& to, Ticks now) noexcept {
  for (Watched& w : watched_) {
    if (w.to.version == 0) continue;
    if (now - w.since > kWatchFor)
      w.to = {};
    else if (w.to == to)
      return true;
  }
  return false;
}

// This packet shows how its destination is reached.
void Translator::report_path(const Item& it, const rte_mbuf& m) noexcept {
  it.flow->probe_due = false;
  const PathKey to = outside_of(it.key);
  const Ticks now = to_ticks(now_);
  const bool asked = watched(to, now);
  const bool wanted = it.doubtful ? pmtu_.wants_probe_in_doubt(to, now) : pmtu_.wants_probe(to, now);
  if (mailbox_ == nullptr || !policy_->probing.probe || (!asked && !wanted)) return;
  for (Watched& w : watched_)
    if (w.to == to) w.to = {};
  pmtu_.pending(to, now);
  Report r{.kind = asked ? Report::Kind::kWatched : Report::Kind::kElephant,
           .pair = pair_, .length = it.v.l2_len, .to = to, .from = inside_of(it.key), .at = now_};
  static_assert(sizeof r.bytes >= sizeof(EthernetHeader) + 2 * sizeof(VlanTag));
  std::memcpy(r.bytes.data(), data(m), it.v.l2_len);
  mailbox_->report(r);
}

void Translator::command(const Command& c, Nanos now) noexcept {
  const Ticks t = to_ticks(now);
  switch (c.kind) {
    case Command::Kind::kTransmit:
      ++count_.probe_sent;
      push(PktPtr(c.pkt), Direction::kOutbound);
      break;
    case Command::Kind::kConfirm:
      pmtu_.confirm(c.to, c.mtu, t);
      ++count_.pmtu_confirmed;
      break;
    case Command::Kind::kLower:
      pmtu_.lower(c.to, c.mtu, t);
      break;
    case Command::Kind::kSilent:
      pmtu_.silent(c.to, t);
      break;
    case Command::Kind::kForget:
      if (c.to.version != 0) {
        pmtu_.forget(c.to);
      } else {
        pmtu_.clear();
      }
      break;
    case Command::Kind::kWatchFor:
      watched_[next_watched_++ % watched_.size()] = {c.to, t};
      break;
    case Command::Kind::kExpect:
    case Command::Kind::kExpectEnd:
      for (const auto& stage : stages_) stage->command(c, now);
      break;
  }
}

// About a segment of an inside host that was too large further outside.
void Translator::take_too_big_from_outside(const TooBig& e, Flow& f) noexcept {
  const bool in_window = f.out_known && !seq_before(e.seq, f.out_una) && seq_before(e.seq, f.out_next);
  if (!in_window || e.mtu < least_path_mtu(f.version) || e.mtu >= path_limit(f)) {
    ++count_.ptb_ignored;
    return;
  }
  ++count_.ptb_taken;
  lower_path(e.key, f, static_cast<uint16_t>(e.mtu));
}

// About a packet towards an inside host, merged most likely, that was too large further inside. The
// error goes on to the outside sender all the same: it concerns it where the value is below the outside
// MTU, and is above all that it sends elsewhere.
void Translator::take_too_big_from_inside(const TooBig& e, Flow& f) noexcept {
  // Anything sent in the last 2^30 bytes may still be on its way.
  const bool in_window = f.seq_known && f.next_seq - e.seq <= 1u << 30;
  if (!in_window || e.mtu < least_path_mtu(f.version) || e.mtu >= f.merge_cap) {
    ++count_.ptb_passed;
    return;
  }
  merger_.flush(f, End::kOther, now_);
  set_merge_cap(f, e.mtu);
  pmtu_.lower(inside_of(e.key), static_cast<uint16_t>(e.mtu), to_ticks(now_));
  ++count_.pmtu_lowered;
  ++count_.ptb_inside;
}

}  // namespace pxgw
