// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/core/batcher.h"

#include <algorithm>

#include "caravan/core/tunnels.h"

namespace caravan {
namespace {

bool is_tunnel(uint16_t port) {
  return std::ranges::find(kTunnelPorts, port) != kTunnelPorts.end();
}

// One sender, one receiver.
bool unicast(const Address& a) {
  return a.family == Family::kIpv6 ? a.bytes[0] != 0xff : a.bytes[0] < 224;
}

}  // namespace

Batcher::Pair& Batcher::pair_of(const Address& src, const Address& dst) {
  for (size_t i = 0; i < pairs_used_; ++i)
    if (pairs_[i].dst == dst && pairs_[i].src == src) return pairs_[i];
  if (pairs_used_ == pairs_.size()) pairs_.emplace_back();
  Pair& p = pairs_[pairs_used_++];
  p.held.clear();
  p.src = src;
  p.dst = dst;
  p.size = 0;
  return p;
}

void Batcher::add(Bytes packet) {
  UdpPacket u;
  if (!parse_udp(packet, u)) {
    // A fragment, or not UDP: whose it is isn't known, so nothing may overtake it.
    flush_all();
    out_.push_back({packet, 0});
    return;
  }
  const size_t before = pairs_used_;
  Pair& p = pair_of(u.src(), u.dst());
  if (pairs_used_ != before) p.cap = unicast(p.src) && unicast(p.dst) ? cap_(u) : uint16_t{0};
  const size_t record = mark_bytes(u.family) + u.datagram.udp.size();
  const size_t lone = ip_bytes(u.family) + kUdpBytes + sizeof(Header) + record;
  const bool fits = lone <= p.cap && !is_tunnel(u.src_port) && !is_tunnel(u.dst_port) &&
                    u.src_port != port_ && u.dst_port != port_ &&
                    (u.family == Family::kIpv4 || checksum_ok(u));
  if (!p.held.empty() && (!fits || p.size + record > p.cap || p.held.size() == kMaxDatagrams ||
                          !may_share(p.held[0], u)))
    flush(p);
  if (!fits) {
    out_.push_back({packet, 0});
    return;
  }
  p.size = p.held.empty() ? lone : p.size + record;
  p.held.push_back(u);
}

void Batcher::flush(Pair& p) {
  if (p.held.size() == 1 && lone_ == Lone::kPlain) {
    const UdpPacket& u = p.held[0];
    out_.push_back({{u.ip, ip_bytes(u.family) + u.datagram.udp.size()}, 0});
  } else if (!p.held.empty()) {
    if (made_used_ == made_.size()) made_.emplace_back(UINT16_MAX);
    std::vector<uint8_t>& memory = made_[made_used_++];
    const size_t n = bundle_packet(p.held, port_, memory);
    out_.push_back({Bytes(memory).first(n), static_cast<unsigned>(p.held.size())});
  }
  p.held.clear();
}

void Batcher::flush_all() {
  for (size_t i = 0; i < pairs_used_; ++i) flush(pairs_[i]);
}

const std::vector<Batcher::Packet>& Batcher::finish() {
  flush_all();
  return out_;
}

void Batcher::clear() {
  for (size_t i = 0; i < pairs_used_; ++i) pairs_[i].held.clear();
  pairs_used_ = made_used_ = 0;
  out_.clear();
}

}  // namespace caravan
