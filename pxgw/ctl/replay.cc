// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/replay.h"

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_mbuf_dyn.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "pxgw/dp/worker.h"
#include "pxio/dp/packet_view.h"

namespace pxgw {
namespace {

using pxio::Nanos;
using namespace std::chrono_literals;

constexpr Nanos kBurstSpan = 5us;
// A step back of this much isn't disorder, somebody set the clock.
constexpr Nanos kClockStep = 1s;
constexpr Nanos kHousekeeping = 1ms;
// Below this many free buffers a burst of jumbos might not find enough to be split into: 32 x 64 KB
// at MSS 536 are 3,904.
constexpr unsigned kReserve = 4096;
// Ethernet header with two VLAN tags.
constexpr uint32_t kLongestEthernet = 22;

// What travels with each packet. Buffers that the gateway makes don't bear kRead.
struct Meta {
  int64_t stamp;
  uint32_t burst;
  uint32_t cut;  // bytes that the capture's snaplen cut off
};

int g_meta_offset = -1;
uint64_t g_read_flag = 0;

Meta& meta(rte_mbuf& m) { return *RTE_MBUF_DYNFIELD(&m, g_meta_offset, Meta*); }

void register_meta() {
  const rte_mbuf_dynfield field{"pxgw_capture_meta", sizeof(Meta), alignof(Meta), 0};
  const rte_mbuf_dynflag flag{"pxgw_capture_read", 0};
  g_meta_offset = rte_mbuf_dynfield_register(&field);
  const int bit = rte_mbuf_dynflag_register(&flag);
  if (g_meta_offset < 0 || bit < 0)
    throw std::runtime_error(
        fmt::format("no room in packet buffers for stamps: {}", rte_strerror(rte_errno)));
  g_read_flag = 1ULL << bit;
}

}  // namespace

uint16_t Outbox::tx_burst(uint16_t, rte_mbuf** pkts, uint16_t n) noexcept {
  for (uint16_t i = 0; i < n; ++i) waiting.push_back({pxio::PktPtr(pkts[i]), {}, {}});
  return n;
}

Replay::Replay(CaptureReader& in, CaptureWriter& out, const Policy& policy,
               const Capacity& capacity, pxio::Buffers buffers)
    : in_(in),
      out_(out),
      policy_(policy),
      buffers_(buffers),
      usual_frame_(policy.outside_mtu +
                   (in.link() == pxio::Link::kEthernet ? kLongestEthernet : 0)),
      to_inside_(inside_box_, 0),
      to_outside_(outside_box_, 0),
      gateway_(policy, capacity, buffers, to_inside_, to_outside_) {
  register_meta();
}

ReplayTotals Replay::run(const std::function<void()>& tick) {
  constexpr uint32_t kTickBursts = 256, kReserveBursts = 16;
  for (uint32_t bursts = 1; next_ || read(); ++bursts) {
    expire(next_time_);
    now_ = next_time_;
    shift_ = next_shift_;
    burst();
    if (bursts % kTickBursts == 0) tick();
    if (bursts % kReserveBursts == 0 && rte_mempool_avail_count(buffers_.small) < kReserve) empty();
    if (now_ - housekept_ >= kHousekeeping) {
      gateway_.housekeeping(now_);
      housekept_ = now_;
    }
  }
  // Behind the last packet time goes on until nothing is held any more.
  expire(Nanos::max());
  empty();
  totals_.in_pkts = in_.packets();
  totals_.out_pkts = out_.packets();
  totals_.out_bytes = out_.bytes();
  totals_.counters = gateway_.counters();
  add(totals_.counters, passed_by_);
  return totals_;
}

bool Replay::read() {
  CaptureRecord r;
  if (!in_.next(r)) return false;
  if (in_.packets() == 1) {
    totals_.first = totals_.last = last_stamp_ = r.stamp;
    now_ = next_time_ = left_ = housekept_ = r.stamp;
  }
  totals_.in_bytes += r.wire_len;
  totals_.cut_pkts += r.wire_len > r.len;
  totals_.stepped_back += r.stamp < last_stamp_;
  totals_.last = std::max(totals_.last, r.stamp);
  // Late enough that every held packet meets its deadline before the clock is set.
  if (last_stamp_ - r.stamp >= kClockStep)
    next_shift_ = next_time_ + policy_.hold_limit + kBurstSpan - r.stamp;
  last_stamp_ = r.stamp;
  next_time_ = std::max(next_time_, r.stamp + next_shift_);
  next_ = take(r);
  return true;
}

pxio::PktPtr Replay::take(const CaptureRecord& r) {
  pxio::PktPtr m = try_take(r);
  if (!m) {
    empty();  // what is held has the buffers
    m = try_take(r);
  }
  if (!m) throw std::runtime_error(fmt::format("no buffers left for a packet of {} bytes", r.len));
  m->ol_flags |= g_read_flag;
  meta(*m) = {r.stamp.count(), 0, r.wire_len - r.len};
  return m;
}

pxio::PktPtr Replay::try_take(const CaptureRecord& r) {
  pxio::PktPtr head(rte_pktmbuf_alloc(buffers_.small));
  if (!head) return {};
  if (r.len > rte_pktmbuf_tailroom(head.get())) {
    if (pxio::PktPtr large{rte_pktmbuf_alloc(buffers_.large)}) head = std::move(large);
  }
  head->pkt_len = r.len;
  rte_mbuf* last = head.get();
  for (uint32_t done = 0;;) {
    const auto n =
        static_cast<uint16_t>(std::min<uint32_t>(r.len - done, rte_pktmbuf_tailroom(last)));
    std::memcpy(rte_pktmbuf_mtod(last, uint8_t*), r.data + done, n);
    last->data_len = n;
    done += n;
    if (done == r.len) return head;
    rte_mbuf* more = rte_pktmbuf_alloc(buffers_.large);
    if (more == nullptr) more = rte_pktmbuf_alloc(buffers_.small);
    if (more == nullptr) return {};
    last->next = more;
    last = more;
    head->nb_segs++;
  }
}

void Replay::burst() {
  ++burst_;
  floor_ = now_;
  if (goes_around()) {
    pass_by();
    return;
  }
  Nanos end = now_ + std::min(kBurstSpan, policy_.hold_limit);
  if (const auto deadline = gateway_.next_deadline()) end = std::min(end, *deadline - 1ns);
  std::array<rte_mbuf*, pxio::kBurst> pkts;
  uint16_t n = 0;
  for (bool alone = false; !alone;) {
    alone = next_->pkt_len > usual_frame_;
    meta(*next_).burst = burst_;
    next_->port = n;
    arrived_[n] = next_time_;
    pkts[n++] = next_.release();
    if (n == pkts.size() || !read()) break;
    if (next_time_ > end || next_shift_ != shift_ || next_->pkt_len > usual_frame_ || goes_around())
      break;
  }
  arrived_n_ = n;
  gateway_.process(pxio::Direction::kInbound, pkts.data(), n, now_);
  settle();
  arrived_n_ = 0;
}

// TCP whose frame a snaplen cut, but only behind the end of its IP packet (padding, a trailer): it
// would be translated, and what was cut would show as lost. Rare enough for a way that costs
// merges.
bool Replay::goes_around() const {
  if (meta(*next_).cut == 0) return false;
  const pxio::PacketView v = pxio::parse(*next_, in_.link());
  return v.has_flow() && v.why != pxio::Opaque::kCutShort;
}

void Replay::pass_by() {
  empty();
  meta(*next_).burst = burst_;
  const pxio::PacketView v = pxio::parse(*next_, in_.link());
  const bool outbound = listed(policy_.include, pxio::ip_src(*next_, v.l2_len, v.version), v.version) &&
                        !listed(policy_.include, pxio::ip_dst(*next_, v.l2_len, v.version), v.version);
  const uint64_t bytes = next_->pkt_len;
  Counters& c = passed_by_;
  ++(outbound ? c.out_pkts : c.in_pkts);
  (outbound ? c.out_bytes : c.in_bytes) += bytes;
  ++(outbound ? c.to_outside_pkts : c.to_inside_pkts);
  (outbound ? c.to_outside_bytes : c.to_inside_bytes) += bytes;
  ++c.pass_cut_short;
  const auto bin = static_cast<size_t>(
      std::lower_bound(kSizeBounds.begin(), kSizeBounds.end(), v.ip_len) - kSizeBounds.begin());
  ++c.size_in[outbound][bin];
  ++c.size_out[outbound][bin];
  (outbound ? outside_box_ : inside_box_).waiting.push_back({std::move(next_), {}, {}});
  settle();
}

void Replay::expire(Nanos until) {
  Nanos at{};
  for (auto deadline = gateway_.next_deadline(); deadline && *deadline <= until && at < until;
       deadline = gateway_.next_deadline()) {
    at = std::max(*deadline, at + 1ns);
    ++burst_;
    floor_ = at;
    gateway_.flush_expired(at);
    settle();
  }
}

void Replay::empty() {
  gateway_.drain(now_);
  settle();
}

void Replay::settle() {
  to_inside_.flush();
  to_outside_.flush();
  stamp(inside_box_);
  stamp(outside_box_);
  auto a = inside_box_.waiting.begin(), b = outside_box_.waiting.begin();
  const auto a_end = inside_box_.waiting.end(), b_end = outside_box_.waiting.end();
  while (a != a_end || b != b_end)
    write(b == b_end || (a != a_end && a->order <= b->order) ? *a++ : *b++);
  inside_box_.waiting.clear();
  outside_box_.waiting.clear();
}

void Replay::stamp(Outbox& box) const {
  Nanos at = std::max(left_, floor_);
  for (Outbox::Waiting& w : box.waiting) {
    rte_mbuf& head = *w.pkt;
    const Nanos before = at;
    const auto of_this_burst = [&](rte_mbuf& m) {
      return (m.ol_flags & g_read_flag) != 0 && meta(m).burst == burst_;
    };
    for (rte_mbuf* seg = &head; seg != nullptr; seg = seg->next)
      if (of_this_burst(*seg)) at = std::max(at, Nanos(meta(*seg).stamp) + shift_);
    // The pieces of a packet bear its port.
    if ((head.ol_flags & g_read_flag) == 0 && head.port < arrived_n_)
      at = std::max(at, arrived_[head.port]);
    w.order = at;
    w.stamp = at - shift_;
    if (head.nb_segs != 1 || !of_this_burst(head)) continue;
    // As it came. It waited for its burst to end where others left before it; but where its stamp
    // lies ahead of the burst, the capture's clock stepped back.
    const Nanos own(meta(head).stamp);
    if (own + shift_ >= before || own + shift_ < floor_) w.stamp = own;
  }
}

void Replay::write(Outbox::Waiting& w) {
  const bool read = (w.pkt->ol_flags & g_read_flag) != 0;
  out_.write(w.stamp, *w.pkt, read ? meta(*w.pkt).cut : 0);
  left_ = std::max(left_, w.order);
}

}  // namespace pxgw
