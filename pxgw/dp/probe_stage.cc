// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/probe_stage.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "pxio/dp/checksum.h"
#include "pxio/dp/finish_checksum.h"

namespace pxgw {

using namespace pxio;

namespace {

// A report for the largest link-layer header.
constexpr size_t kMaxL2 = sizeof(EthernetHeader) + 2 * sizeof(VlanTag);
constexpr uint8_t kUnreachable4 = 3, kPortUnreachable4 = 3, kUnreachable6 = 1, kPortUnreachable6 = 4;
constexpr size_t kNonceAt = 8, kNonceEnd = 24;

fpmtud::ResponderConfig responder_config(std::optional<fpmtud::Key> key) {
  fpmtud::ResponderConfig c;
  c.key = std::move(key);
  c.reverse = false;  // a round back would have to be paced
  std::random_device rd;
  for (uint8_t& b : c.secret) b = static_cast<uint8_t>(rd());
  return c;
}

fpmtud::Endpoint endpoint(const PathKey& k, uint16_t port) {
  fpmtud::Endpoint e;
  e.family = k.version == 4 ? fpmtud::Family::kIpv4 : fpmtud::Family::kIpv6;
  std::memcpy(e.address.data(), k.bytes(), e.address.size());
  e.port = port;
  return e;
}

bool sum_known_good(const rte_mbuf& m) {
  return (m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD;
}

uint8_t hops(const rte_mbuf& m, const PacketView& v) {
  return v.version == 4 ? header_at<Ipv4Header>(m, v.l2_len).ttl : header_at<Ipv6Header>(m, v.l2_len).hop_limit;
}

}  // namespace

ProbeStage::ProbeStage(const Context& c, Mailbox& box, uint8_t pair, std::optional<fpmtud::Key> key)
    : policy_(&c.policy), buffers_(c.buffers), to_outside_(c.to_outside), count_(c.count), box_(box),
      pair_(pair), responder_(responder_config(std::move(key))) {}

void ProbeStage::apply(const Policy& policy, Nanos) noexcept { policy_ = &policy; }

void ProbeStage::command(const Command& c, Nanos) noexcept {
  if (c.kind == Command::Kind::kExpectEnd) {
    for (Expected& e : expected_) {
      if (!e.in_use || e.nonce != c.nonce) continue;
      e.in_use = false;
      --expecting_;
    }
  } else if (c.kind == Command::Kind::kExpect) {
    // Only where none is free, because ends got lost, in turn.
    auto e = std::find_if(expected_.begin(), expected_.end(), [](const Expected& x) { return !x.in_use; });
    if (e == expected_.end()) e = expected_.begin() + next_expected_++ % expected_.size();
    expecting_ += !e->in_use;
    *e = {c.to, c.from, c.port, c.from_port, c.nonce, true};
  }
}

void ProbeStage::process(std::span<Packet> pkts, Nanos now) noexcept {
  for (Packet& p : pkts) {
    if (p.pkt == nullptr || p.dir != Direction::kInbound) continue;
    bool taken = false;
    switch (p.view->kind) {
      case Kind::kUdp: taken = take_datagram(*p.pkt, *p.view, now); break;
      case Kind::kFragment: taken = take_fragment(*p.pkt, *p.view, now); break;
      case Kind::kIcmp: taken = expecting_ != 0 && take_error(*p.pkt, *p.view, now); break;
      default: break;
    }
    if (taken) PktPtr(std::exchange(p.pkt, nullptr)).reset();
  }
}

// A UDP datagram whose header lies in the first buffer, or a first fragment of one.
std::optional<ProbeStage::Datagram> ProbeStage::read(const rte_mbuf& m, const PacketView& v) noexcept {
  if (v.l4_off() + sizeof(UdpHeader) > m.data_len) return {};
  const auto& udp = header_at<UdpHeader>(m, v.l4_off());
  Datagram d;
  if (udp.len.host() < sizeof(UdpHeader)) return {};
  d.payload = static_cast<uint16_t>(udp.len.host() - sizeof(UdpHeader));
  d.at = static_cast<uint32_t>(v.l4_off() + sizeof(UdpHeader));
  d.ends.from = PathKey::of(v.version, ip_src(m, v.l2_len, v.version));
  d.ends.to = PathKey::of(v.version, ip_dst(m, v.l2_len, v.version));
  d.ends.from_port = udp.src_port.host();
  d.ends.to_port = udp.dst_port.host();
  return d;
}

bool ProbeStage::answers_for(const PathKey& inside) const noexcept {
  return listed(policy_->probing.answer, inside.bytes(), inside.version);
}

bool ProbeStage::take_datagram(rte_mbuf& m, const PacketView& v, Nanos now) noexcept {
  if (v.why != Opaque::kNone) return false;
  const auto d = read(m, v);
  const uint16_t port = policy_->probing.port;
  if (!d || v.l3_len + sizeof(UdpHeader) + d->payload != v.ip_len) return false;
  if (d->ends.from_port == port && expecting_ != 0 && take_answer(m, v, *d, now)) return true;
  if (d->ends.to_port != port || d->payload < fpmtud::kProbeBytes || !answers_for(d->ends.to)) return false;
  // All that is read of it must lie in the first buffer; what parses has.
  const size_t front = std::min<size_t>(d->payload, fpmtud::kRequestBytes);
  if (!pull(m, static_cast<uint16_t>(d->at + front))) return false;
  const std::span<const uint8_t> header(data(m) + d->at, front);
  const auto type = fpmtud::type_of(header);
  if (!type || *type == fpmtud::Type::kReport) return false;
  if (!sum_known_good(m) && !l4_checksum_holds(m, v)) return false;
  ++count_.probe_taken;
  answer(m, v, d->ends, {.payload = header, .ttl = hops(m, v), .length = d->payload}, now);
  return true;
}

bool ProbeStage::take_fragment(const rte_mbuf& m, const PacketView& v, Nanos now) noexcept {
  if (v.version != 4 || v.proto != kProtoUdp || v.l3_len != kIpv4HeaderLen || policy_->probing.answer.empty() ||
      v.ip_len <= v.l3_len || v.l2_len + v.ip_len > m.pkt_len)
    return false;
  const auto& ip = header_at<Ipv4Header>(m, v.l2_len);
  if (!ipv4_header_ok(ip)) return false;
  const uint16_t frag = ip.frag.host();
  const ProbeFragment f{.src = ip.src.raw(),
                        .dst = ip.dst.raw(),
                        .id = ip.id.host(),
                        .offset = static_cast<uint16_t>((frag & kIpOffsetMask) * 8),
                        .length = static_cast<uint16_t>(v.ip_len - v.l3_len),
                        .ip_len = static_cast<uint16_t>(v.ip_len),
                        .more = (frag & kIpMf) != 0};
  using Verdict = ProbeFragments::Verdict;
  Verdict verdict = Verdict::kNotOurs;
  if (f.offset != 0) {
    verdict = fragments_.later(f, now);
  } else {
    const auto d = read(m, v);
    if (!d || d->ends.to_port != policy_->probing.port || !answers_for(d->ends.to)) return false;
    // Routers don't cut that short: the smallest fragment of theirs has 68 B, but no link is so narrow.
    if (d->at + fpmtud::kProbeBytes > std::min<uint32_t>(m.data_len, v.l2_len + v.ip_len)) return false;
    const std::span<const uint8_t, fpmtud::kProbeBytes> header(data(m) + d->at, fpmtud::kProbeBytes);
    if (fpmtud::type_of(header) != fpmtud::Type::kProbe) return false;
    verdict = fragments_.first(f, d->ends.from_port, d->payload, header, now);
  }
  if (verdict == Verdict::kNotOurs) return false;
  ++count_.probe_taken;
  if (verdict == Verdict::kComplete) {
    const ProbeFragments::Probe& p = fragments_.probe();
    const UdpEnds ends{PathKey::of(4, &f.src), PathKey::of(4, &f.dst), p.from_port, policy_->probing.port};
    answer(m, v, ends,
           {.payload = p.header, .fragment = p.largest_fragment, .ttl = ip.ttl, .length = p.payload}, now);
  }
  return true;
}

// Sends the report to where the probe came from, in the name of the host that was probed.
void ProbeStage::answer(const rte_mbuf& m, const PacketView& v, const UdpEnds& ends,
                        const fpmtud::Arrival& arrival, Nanos now) noexcept {
  fpmtud::Arrival a = arrival;
  a.from = endpoint(ends.from, ends.from_port);
  std::array<uint8_t, fpmtud::kReportBytes> report;
  std::optional<fpmtud::Request> request;
  if (responder_.answer(a, now, report, request) == 0) {
    ++count_.probe_limited;
    return;
  }
  const size_t headers = v.l2_len + udp_headers(ends.from.version);
  PktPtr out(rte_pktmbuf_alloc(buffers_.small));
  if (!out || v.l2_len > kMaxL2) {
    ++count_.probe_limited;
    return;
  }
  std::array<uint8_t, kMaxL2> l2;
  std::memcpy(l2.data(), data(m), v.l2_len);
  if (v.l2_len >= sizeof(EthernetHeader)) std::swap_ranges(l2.begin(), l2.begin() + 6, l2.begin() + 6);
  auto* bytes = reinterpret_cast<uint8_t*>(
      rte_pktmbuf_append(out.get(), static_cast<uint16_t>(headers + report.size())));
  std::memcpy(bytes + headers, report.data(), report.size());
  write_udp_headers({bytes, headers + report.size()}, {l2.data(), v.l2_len},
                    {ends.to, ends.from, ends.to_port, ends.from_port}, Fragmentable::kNo, 0);
  ++count_.probe_reports;
  to_outside_.push(std::move(out));
}

const ProbeStage::Expected* ProbeStage::expected(const UdpEnds& probe) const noexcept {
  for (const Expected& e : expected_)
    if (e.in_use && e.from_port == probe.from_port && e.port == probe.to_port && e.to == probe.to &&
        e.from == probe.from)
      return &e;
  return nullptr;
}

bool ProbeStage::take_answer(const rte_mbuf& m, const PacketView& v, const Datagram& d, Nanos now) noexcept {
  const Expected* e = expected({d.ends.to, d.ends.from, d.ends.to_port, d.ends.from_port});
  if (e == nullptr || d.payload != fpmtud::kReportBytes) return false;
  Report r{.kind = Report::Kind::kAnswer, .pair = pair_, .length = d.payload, .to = e->to, .from = e->from,
           .at = now, .nonce = e->nonce};
  static_assert(sizeof r.bytes == fpmtud::kReportBytes);
  const void* bytes = rte_pktmbuf_read(&m, d.at, d.payload, r.bytes.data());
  if (bytes != r.bytes.data()) std::memcpy(r.bytes.data(), bytes, d.payload);
  if (!std::equal(e->nonce.begin(), e->nonce.end(), r.bytes.begin() + kNonceAt)) return false;
  if (!sum_known_good(m) && !l4_checksum_holds(m, v)) return false;
  ++count_.probe_answers;
  box_.report(r);
  return true;
}

// An error that quotes a probe of ours: the host in whose name it was sent has no use for it.
bool ProbeStage::take_error(const rte_mbuf& m, const PacketView& v, Nanos now) noexcept {
  if (v.why != Opaque::kNone) return false;
  std::array<uint8_t, sizeof(IcmpHeader) + 60 + sizeof(UdpHeader) + kNonceEnd> copy;
  const uint32_t have = std::min<uint32_t>(v.ip_len - v.l3_len, copy.size());
  const auto* p = static_cast<const uint8_t*>(rte_pktmbuf_read(&m, v.l4_off(), have, copy.data()));
  if (p == nullptr || have < sizeof(IcmpHeader) + sizeof(Ipv4Header)) return false;
  const uint8_t* inner = p + sizeof(IcmpHeader);
  const bool v4 = v.version == 4;
  size_t udp = sizeof(IcmpHeader);
  UdpEnds ends;
  if (v4) {
    const auto ip = load<Ipv4Header>(inner);
    if (ip.version_ihl >> 4 != 4 || ip.ihl_bytes() < kIpv4HeaderLen || ip.proto != kProtoUdp ||
        (ip.frag.host() & kIpOffsetMask) != 0)
      return false;
    udp += ip.ihl_bytes();
    ends.from = PathKey::of(4, &ip.src);
    ends.to = PathKey::of(4, &ip.dst);
  } else {
    if (have < sizeof(IcmpHeader) + sizeof(Ipv6Header)) return false;
    const auto ip = load<Ipv6Header>(inner);
    if (ip.version_class_flow.bytes[0] >> 4 != 6 || ip.next != kProtoUdp) return false;
    udp += sizeof(Ipv6Header);
    ends.from = PathKey::of(6, ip.src);
    ends.to = PathKey::of(6, ip.dst);
  }
  if (have < udp + sizeof(UdpHeader)) return false;
  const auto header = load<UdpHeader>(p + udp);
  ends.from_port = header.src_port.host();
  ends.to_port = header.dst_port.host();
  const Expected* e = expected(ends);
  if (e == nullptr) return false;
  ++count_.probe_errors;
  const bool refused = v4 ? p[0] == kUnreachable4 && p[1] == kPortUnreachable4
                          : p[0] == kUnreachable6 && p[1] == kPortUnreachable6;
  const uint8_t* nonce = p + udp + sizeof(UdpHeader) + kNonceAt;
  if (refused && have >= udp + sizeof(UdpHeader) + kNonceEnd &&
      std::equal(e->nonce.begin(), e->nonce.end(), nonce))
    box_.report({.kind = Report::Kind::kRefused, .pair = pair_, .to = e->to, .from = e->from, .at = now,
                 .nonce = e->nonce});
  return true;
}

}  // namespace pxgw
