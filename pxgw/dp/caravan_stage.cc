// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/caravan_stage.h"

#include <algorithm>

#include "caravan/dp/hello.h"
#include "caravan/dp/pair.h"
#include "pxgw/dp/translator.h"
#include "pxio/dp/cut_merged.h"

namespace pxgw {

using pxio::data;
using pxio::Direction;
using pxio::Kind;
using pxio::Nanos;
using pxio::PacketView;
using pxio::PktPtr;

namespace {

constexpr uint32_t kSpaced = 1024;     // datagrams that wait for their place
constexpr uint16_t kMostMerged = 128;  // datagrams in one packet: UDP_MAX_SEGMENTS of Linux

caravan::Bundler::Limits bundler_limits(const Policy& p, uint16_t max_segs) {
  return {.hold = p.hold_limit,
          .mtu = p.inside_mtu,
          .max_segs = std::min(p.max_merge_segs, max_segs),
          .max_held = CaravanStage::kMostHeld,
          .port = p.caravans.port,
          .observe = p.caravans.mode == Caravans::Mode::kObserve};
}

}  // namespace

CaravanStage::CaravanStage(const Context& c, CaravanHosts& hosts, Ports ports)
    : policy_(&c.policy),
      outlet_(c.translator),
      to_inside_(c.to_inside),
      count_(c.count),
      buffers_(c.buffers),
      hosts_(hosts),
      ports_(ports),
      registrar_(
          hosts.table,
          {.largest = c.policy.inside_mtu, .secret = hosts.secret, .session = hosts.session}),
      bundler_(hosts.table, kPairs, bundler_limits(c.policy, ports.inside_segs),
               {&c.to_inside, &c.count.hold}, c.count.caravan, hosts.secret[0]),
      unbundler_({.port = c.policy.caravans.port, .max_segs = ports.outside_segs}, c.buffers,
                 c.count.caravan),
      spacer_(kSpaced, c.to_outside, c.count.caravan),
      reassembler_(kFragmented, hosts.secret[1], c.count) {
  apply(c.policy, Nanos(0));
}

void CaravanStage::apply(const Policy& policy, Nanos now) noexcept {
  policy_ = &policy;
  reassembler_.set_limits(
      {.timeout = kFragmentsWait, .max_segs = std::min(policy.max_merge_segs, ports_.inside_segs)});
  registrar_.set_largest(policy.inside_mtu);
  bundler_.set_limits(bundler_limits(policy, ports_.inside_segs), now);
  bundler_.set_tunnel_ports(policy.caravans.tunnels);
  unbundler_.set_limits({.port = policy.caravans.port, .max_segs = ports_.outside_segs});
  if (!reassembles()) let_go(now);
  spacer_.flush_all();
  spacer_.set_spacing(policy.caravans.spacing);
}

// Caravans are between the gateway and its hosts. One from outside would bring past it what it is
// there to see.
inline bool CaravanStage::foreign(const rte_mbuf& m, const PacketView& v, Nanos now) const noexcept {
  if (policy_->caravans.mode != Caravans::Mode::kOn) return false;
  // In parts it's nothing without the first.
  const bool caravan = v.kind == Kind::kUdp ? unbundler_.is_caravan(m, v)
                                            : v.kind == Kind::kFragment && unbundler_.begins_caravan(m, v);
  return caravan && taken_by_host(m, v, now) != 0;
}

uint16_t CaravanStage::taken_by_host(const rte_mbuf& m, const PacketView& v, Nanos now) const noexcept {
  return hosts_.table.size_of(caravan::destination_of(data(m) + v.l2_len, v.version == 6), now);
}

inline bool CaravanStage::inbound(const Packet& p, Nanos now) noexcept {
  if (p.view->kind == Kind::kFragment && reassembles() && reassemble(p, now)) [[unlikely]] return true;
  if (pxio::merged_datagrams(*p.pkt, *p.view) && part(p, now)) [[unlikely]] return true;
  if (foreign(*p.pkt, *p.view, now)) {
    ++count_.drop_caravan_foreign;
    PktPtr(p.pkt).reset();
    return true;
  }
  return bundler_.add(p.pkt, *p.view, now);
}

bool CaravanStage::reassembles() const noexcept {
  return policy_->caravans.reassemble && policy_->caravans.mode == Caravans::Mode::kOn;
}

// True: it waits, or has left with what it belongs to.
bool CaravanStage::reassemble(const Packet& p, Nanos now) noexcept {
  const uint16_t takes = taken_by_host(*p.pkt, *p.view, now);
  if (takes == 0) return false;
  Reassembler::Out out;
  const uint16_t n =
      reassembler_.add(p.pkt, *p.view, std::min(takes, policy_->inside_mtu), now, out);
  to_host({out.data(), n}, now);
  return true;
}

// Datagrams that the port merged, for a host that takes caravans. True: they are on their way one by one.
bool CaravanStage::part(const Packet& p, Nanos now) noexcept {
  if (policy_->caravans.mode != Caravans::Mode::kOn || taken_by_host(*p.pkt, *p.view, now) == 0 ||
      (p.pkt->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) != RTE_MBUF_F_RX_L4_CKSUM_GOOD ||
      !bundler_.bundles(*p.pkt, *p.view))
    return false;
  std::array<rte_mbuf*, kMostMerged> out;
  const uint16_t n = pxio::cut_merged(*p.pkt, p.view->l4_off(), p.pkt->tso_segsz, buffers_, out.data(), kMostMerged);
  if (n == 0) return false;
  // Their checksums have just been made.
  for (uint16_t i = 0; i < n; ++i) out[i]->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  PktPtr(p.pkt).reset();
  ++count_.udp_cut_pkts;
  count_.udp_cut_datagrams += n;
  to_host({out.data(), n}, now);
  return true;
}

void CaravanStage::process(std::span<Packet> pkts, Nanos now) noexcept {
  if (policy_->caravans.mode == Caravans::Mode::kOff) return;
  for (Packet& p : pkts) {
    if (p.pkt == nullptr || (p.view->kind != Kind::kUdp && p.view->kind != Kind::kFragment))
      continue;
    const bool taken = p.dir == Direction::kInbound ? inbound(p, now) : outbound(p, now);
    // Nothing is left for later: the datagrams of a flow keep their order whichever way each goes.
    if (!taken && policy_->caravans.mode == Caravans::Mode::kOn)
      outlet_.pass_on(PktPtr(p.pkt), *p.view, p.dir);
    if (taken || policy_->caravans.mode == Caravans::Mode::kOn) p.pkt = nullptr;
  }
  bundler_.end_burst(now);
}

void CaravanStage::let_go(Nanos now) noexcept {
  Reassembler::Out out;
  while (const uint16_t n = reassembler_.take_oldest(out)) to_host({out.data(), n}, now);
}

// Behind what is held for their pair.
void CaravanStage::to_host(std::span<rte_mbuf* const> pkts, Nanos now) noexcept {
  for (rte_mbuf* m : pkts) {
    PktPtr pkt(m);
    const PacketView v = pxio::parse(*m, policy_->link);
    if (foreign(*m, v, now)) {
      ++count_.drop_caravan_foreign;
    } else if (bundler_.add(m, v, now)) {
      (void)pkt.release();
    } else {
      outlet_.pass_on(std::move(pkt), v, Direction::kInbound);
    }
  }
}

bool CaravanStage::from_inside_host(const rte_mbuf& m, const PacketView& v) const noexcept {
  const uint8_t* src = pxio::ip_src(m, v.l2_len, v.version);
  return !listed(policy_->exclude, src, v.version) &&
         (policy_->include.empty() || listed(policy_->include, src, v.version));
}

bool CaravanStage::outbound(const Packet& p, Nanos now) noexcept {
  const PacketView& v = *p.view;
  if (v.kind == Kind::kUdp && policy_->caravans.mode == Caravans::Mode::kOn) {
    const bool hello =
        policy_->caravans.hello && caravan::is_hello(*p.pkt, v, policy_->caravans.port);
    if (hello || unbundler_.is_caravan(*p.pkt, v)) {
      PktPtr pkt(p.pkt);
      if (!from_inside_host(*pkt, v)) {
        ++count_.drop_caravan_foreign;
      } else if (!hello) {
        take_apart(std::move(pkt), v, now);
      } else if (caravan::answer_hello(*pkt, v, registrar_, now)) {
        ++count_.hello_answered;
        to_inside_.push(std::move(pkt));
      } else {
        ++count_.drop_hello;
      }
      return true;
    }
  }
  // What came out of a caravan before it may still wait.
  if (spacer_.held() == 0) return false;
  const uint64_t pair = pair_hash(*p.pkt, v);
  if (!spacer_.holds(pair, now)) return false;
  if (PktPtr fits = outlet_.fit(PktPtr(p.pkt), v.l2_len, Direction::kOutbound))
    spacer_.push(std::move(fits), pair, now);
  return true;
}

uint64_t CaravanStage::pair_hash(const rte_mbuf& m, const PacketView& v) const noexcept {
  return caravan::hash_of(caravan::pair_of(data(m) + v.l2_len, v.version == 6), v.version == 6,
                          hosts_.secret[0]);
}

void CaravanStage::take_apart(PktPtr pkt, const PacketView& v, Nanos now) noexcept {
  const uint64_t pair = pair_hash(*pkt, v);
  caravan::Unbundler::Out out;
  const uint16_t n = unbundler_.take(std::move(pkt), v, out);
  for (uint16_t i = 0; i < n; ++i)
    if (PktPtr fits = outlet_.fit(PktPtr(out[i]), v.l2_len, Direction::kOutbound))
      spacer_.push(std::move(fits), pair, now);
}

void CaravanStage::flush_expired(Nanos now) noexcept {
  Reassembler::Out out;
  while (const uint16_t n = reassembler_.take_expired(now, out)) to_host({out.data(), n}, now);
  bundler_.flush_expired(now);
  spacer_.flush_expired(now);
}

std::optional<Nanos> CaravanStage::next_deadline() const noexcept {
  std::optional<Nanos> next;
  for (const auto& d :
       {bundler_.next_deadline(), spacer_.next_deadline(), reassembler_.next_deadline()})
    if (d && (!next || *d < *next)) next = d;
  return next;
}

void CaravanStage::count() noexcept {
  const caravan::RegistrarCounters& r = registrar_.counters();
  count_.hello_registered = r.registered;
  count_.hello_renewed = r.renewed;
  count_.hello_unregistered = r.unregistered;
  count_.hello_full = r.refused_full;
  count_.hello_limited = r.drop_limit;
  count_.caravan_held = bundler_.held_datagrams() + spacer_.held();
  count_.fragments_held = reassembler_.held();
}

void CaravanStage::drain(Nanos now) noexcept {
  let_go(now);
  bundler_.flush_all(now);
  spacer_.flush_all();
  count_.caravan_held = 0;
  count_.fragments_held = 0;
}

}  // namespace pxgw
