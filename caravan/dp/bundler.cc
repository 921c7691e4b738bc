// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/dp/bundler.h"

#include <algorithm>
#include <bit>

#include "pxio/dp/age_list.h"
#include "pxio/dp/checksum.h"

namespace caravan {
namespace {

using pxio::data;
using pxio::Kind;
using pxio::Nanos;
using pxio::PacketView;
using pxio::PktPtr;

// From here on a pair's datagrams are taken for a stream: its caravans wait for more until the hold limit.
constexpr uint8_t kStream = 2;
constexpr uint8_t kMostScore = 8;
// A pause of so many hold limits, and the next datagram is a lone one.
constexpr uint32_t kPause = 4;

constexpr uint64_t Counters::*kEndCounter[] = {
    &Counters::bundle_end_full,     &Counters::bundle_end_count, &Counters::bundle_end_headers,
    &Counters::bundle_end_other,    &Counters::bundle_end_checksum, &Counters::bundle_end_burst,
    &Counters::bundle_end_hold,     &Counters::bundle_end_drain,
};

uint32_t to_us(Nanos t) { return static_cast<uint32_t>(t.count() / 1000); }
uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) | 1; }

constexpr uint16_t kEthernet = sizeof(pxio::EthernetHeader);
// As memmove; a length that is known leaves no call of it.
template <size_t kLength>
void move_forward(uint8_t* to, const uint8_t* from) {
  std::array<uint8_t, kLength> bytes;
  std::memcpy(bytes.data(), from, kLength);
  std::memcpy(to, bytes.data(), kLength);
}

Family family(bool v6) { return v6 ? Family::kIpv6 : Family::kIpv4; }

// What an IPv6 datagram whose checksum holds adds to the sum of the caravan: its mark, and the complement
// of its pseudo-header's sum.
uint16_t record_sum(const Pair& pair, uint32_t mark, uint16_t length) {
  const auto* a = reinterpret_cast<const uint8_t*>(pair.words.data());
  const auto datagram = static_cast<uint16_t>(~pxio::fold(pseudo_sum(Family::kIpv6, a, a + 16, length)));
  return pxio::fold(uint64_t{be32(mark).raw()} + datagram);
}

}  // namespace

// What is compared and remembered of a datagram: only of use if it fits.
template <bool kV6>
struct Bundler::Facts {
  uint64_t macs_a = 0, tags = 0;
  // As it lies in the header: bytes 0, 1, 6 and 7 of IPv4 (nothing but DF is set in the last two), 0 and 1 of IPv6
  // without the flow label; then TTL or hop limit, and l2_len.
  uint64_t same = 0;
  uint64_t udp;  // its header
  uint32_t macs_b = 0, mark = 0;
  uint16_t length = 0;
  uint16_t segs = 0;
  uint8_t l2_len = 0;
  bool proved = false;  // the checksum is known to hold

  Facts(const rte_mbuf& m, const PacketView& v)
      : segs(m.nb_segs), l2_len(v.l2_len),
        proved((m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD) {
    const uint8_t* p = data(m);
    const uint8_t* ip = p + l2_len;
    if (l2_len != 0) {
      macs_a = pxio::load<uint64_t>(p);
      macs_b = pxio::load<uint32_t>(p + 8);
      if (v.vlan_tags != 0) [[unlikely]] std::memcpy(&tags, p + 12, size_t{v.vlan_tags} * 4);
    }
    const uint64_t first = pxio::load<uint64_t>(ip);
    if constexpr (kV6) {
      mark = __builtin_bswap32(static_cast<uint32_t>(first)) & kFlowLabelMask;
      same = (first & 0xf0ff) | (first >> 56) << 16 | uint64_t{l2_len} << 24;
    } else {
      mark = __builtin_bswap16(static_cast<uint16_t>(first >> 32));
      same = (first & 0xffff00000000ffff) | uint64_t{ip[8]} << 16 | uint64_t{l2_len} << 24;
    }
    udp = pxio::load<uint64_t>(ip + ip_bytes(family(kV6)));
    length = __builtin_bswap16(static_cast<uint16_t>(udp >> 32));
  }
  uint32_t ports() const { return static_cast<uint32_t>(udp); }
  uint16_t checksum() const { return static_cast<uint16_t>(udp >> 48); }
  static uint8_t ecn(uint64_t same) { return (same >> (kV6 ? 12 : 8)) & kEcnMask; }
  uint32_t record() const { return static_cast<uint32_t>(mark_bytes(family(kV6))) + length; }
  uint32_t lone_size() const {
    return static_cast<uint32_t>(ip_bytes(family(kV6)) + kUdpBytes + sizeof(Header)) + record();
  }
};

Bundler::Bundler(const HostTable& hosts, uint32_t slots, const Limits& limits, Sink sink, Counters& counters,
                 uint64_t secret)
    : hosts_(hosts), sink_(sink), count_(counters), secret_(secret),
      mask_(std::bit_ceil(std::max(slots, kWays) / kWays) - 1),
      tags_(pxio::make_zeroed<Tags>(size_t{mask_} + 1)),
      slots_(pxio::make_zeroed<Slot>(size_t{mask_ + 1} * kWays + 1)),
      links_(pxio::make_zeroed<Link>(size_t{mask_ + 1} * kWays + 1)) {
  set_limits(limits, Nanos(0));
  set_tunnel_ports(kTunnelPorts);
}

Bundler::~Bundler() {
  for (uint32_t s = links_[0].next; s != 0; s = links_[s].next) PktPtr(slots_[s].head).reset();
}

void Bundler::set_limits(const Limits& limits, Nanos now) noexcept {
  if (held_ != 0) flush_all(now);
  limits_ = limits;
  limits_.max_datagrams = static_cast<uint8_t>(std::clamp<size_t>(limits.max_datagrams, 1, kMaxDatagrams));
  hold_us_ = limits.hold > Nanos(0) ? std::max(1u, to_us(limits.hold)) : 0;
  linger_us_ = to_us(limits.linger);
}

void Bundler::set_tunnel_ports(std::span<const uint16_t> ports) noexcept {
  tunnels_ = {};
  last_ = 0;  // its ports are to be looked at again
  for (const uint16_t p : ports) tunnels_[p / 64] |= uint64_t{1} << p % 64;
}

template <bool kV6>
inline uint64_t Counters::*Bundler::unfit(const rte_mbuf& m, const PacketView& v) const noexcept {
  if (v.kind != Kind::kUdp) return &Counters::bundle_not_fragment;
  const uint8_t* ip = data(m) + v.l2_len;
  const auto udp = pxio::load<pxio::UdpHeader>(ip + v.l3_len);
  // A shorter UDP length leaves room for options (RFC 9868) that a caravan has no place for.
  if (v.why != pxio::Opaque::kNone || v.l3_len != ip_bytes(family(kV6)) || udp.len.host() != v.ip_len - v.l3_len ||
      (!kV6 && (ip[6] & ~0x40) != 0))
    return &Counters::bundle_not_form;
  if (!unicast(ip, kV6)) return &Counters::bundle_not_address;
  const uint16_t src = udp.src_port.host(), dst = udp.dst_port.host();
  if (is_tunnel(src) || is_tunnel(dst) || src == limits_.port || dst == limits_.port) return &Counters::bundle_not_tunnel;
  if ((m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD || (kV6 && udp.checksum == 0))
    return &Counters::bundle_not_checksum;
  return nullptr;
}

bool Bundler::bundles(const rte_mbuf& m, const PacketView& v) const noexcept {
  return (v.version == 6 ? unfit<true>(m, v) : unfit<false>(m, v)) == nullptr;
}

// Whether an IPv6 datagram is undamaged: one that isn't would make the whole caravan fail.
bool Bundler::prove(const rte_mbuf& m, unsigned l2_len) noexcept {
  ++count_.bundle_summed;
  const uint8_t* ip = data(m) + l2_len;
  uint32_t left = pxio::load<pxio::Ipv6Header>(ip).payload_len.host();
  uint32_t skip = l2_len + pxio::kIpv6HeaderLen;
  uint64_t sum = pseudo_sum(Family::kIpv6, ip + 8, ip + 24, static_cast<uint16_t>(left));
  bool odd = false;
  for (const rte_mbuf* seg = &m; left != 0; seg = seg->next) {
    const uint32_t n = std::min(left, seg->data_len - skip);
    const uint16_t part = pxio::sum_bytes(data(*seg) + skip, n);
    sum += odd ? pxio::swap_odd(part) : part;
    odd ^= n % 2 != 0;
    left -= n;
    skip = 0;
  }
  return pxio::fold(sum) == 0xffff;
}

inline uint32_t Bundler::find(const Pair& pair, bool v6, uint64_t hash) const noexcept {
  const uint32_t set = static_cast<uint32_t>(hash & mask_);
  for (uint32_t way = 0; way < kWays; ++way) {
    const uint32_t slot = set * kWays + 1 + way;
    if (tags_[set].of[way] == tag_of(hash) && slots_[slot].pair == pair && slots_[slot].v6 == v6) return slot;
  }
  return 0;
}

// A slot for a pair that has none: a free one, or that of the pair that has been quiet for longest.
uint32_t Bundler::make(const Pair& pair, bool v6, uint64_t hash) noexcept {
  const uint32_t set = static_cast<uint32_t>(hash & mask_), first = set * kWays + 1;
  auto& tags = tags_[set].of;
  uint32_t best = 0;
  for (uint32_t s = first; s < first + kWays; ++s) {
    if (slots_[s].count != 0) continue;
    if (best == 0 || tags[s - first] == 0 ||
        (tags[best - first] != 0 && static_cast<int32_t>(slots_[s].last_in_us - slots_[best].last_in_us) < 0))
      best = s;
  }
  if (best == 0) return 0;
  tags[best - first] = tag_of(hash);
  slots_[best] = Slot{};
  slots_[best].pair = pair;
  slots_[best].v6 = v6;
  return best;
}

inline void Bundler::note_arrival(Slot& s, uint32_t now_us) const noexcept {
  const uint32_t gap = now_us - s.last_in_us;
  if (gap <= hold_us_) {
    s.score = static_cast<uint8_t>(std::min<unsigned>(s.score + 1u, kMostScore));
  } else {
    s.score = gap > kPause * hold_us_ ? uint8_t{0} : static_cast<uint8_t>(s.score / 2);
  }
  s.last_in_us = now_us;
}

inline void Bundler::note_fresh(uint32_t slot, Nanos now) noexcept {
  if (fresh_n_ != 0 && fresh_[fresh_n_ - 1] == slot) return;
  if (fresh_n_ == fresh_.size()) end_burst(now);
  fresh_[fresh_n_++] = slot;
}

// Another one like this wouldn't fit: nothing to wait for.
template <bool kV6>
inline void Bundler::flush_full(uint32_t slot, const Facts<kV6>& f, Nanos now) noexcept {
  const Slot& s = slots_[slot];
  if (s.size + f.record() > s.cap) {
    flush(slot, End::kFull, now);
  } else if (s.count == limits_.max_datagrams) {
    flush(slot, End::kCount, now);
  }
}

// Whether it is one like the datagram before, which was fit, and has its place behind that in what is held: all that
// add_as() asks, in fewer words. (The family is the first byte of `same`.)
template <bool kV6>
inline bool Bundler::carries_on(const rte_mbuf& m, const PacketView& v, const Facts<kV6>& f) const noexcept {
  constexpr uint64_t kGood = RTE_MBUF_F_RX_L4_CKSUM_GOOD, kBad = RTE_MBUF_F_RX_L4_CKSUM_BAD;
  const Slot& s = slots_[last_];
  const uint8_t* ip = data(m) + f.l2_len;
  if (s.count == 0 || s.same != f.same || s.macs_a != f.macs_a || s.macs_b != f.macs_b ||
      s.tags != f.tags || last_ports_ != f.ports())
    return false;
  if (kV6 ? s.pair != pair_of(ip, kV6) : s.pair.words[0] != pxio::load<uint64_t>(ip + 12)) return false;
  const uint64_t verdict = m.ol_flags & (RTE_MBUF_F_RX_L4_CKSUM_MASK | RTE_MBUF_F_RX_LRO);
  if (kV6 ? verdict != kGood || s.unproved || f.checksum() == 0 : verdict == kBad || verdict > RTE_MBUF_F_RX_L4_CKSUM_MASK)
    return false;
  return v.why == pxio::Opaque::kNone && f.length == v.ip_len - v.l3_len &&
         s.size + f.record() <= s.cap && s.buffers < limits_.max_segs && held_datagrams_ < limits_.max_held &&
         m.nb_segs == 1 && pxio::writable(m) && m.data_off >= front_bytes(family(kV6)) && !limits_.observe;
}

// A datagram that can't be bundled leaves in its place.
bool Bundler::pass(uint64_t& counter, uint32_t slot, End why, rte_mbuf* pkt, Nanos now) noexcept {
  ++counter;
  if (slot != 0 && slots_[slot].count != 0) flush(slot, why, now);
  if (limits_.observe) return false;
  sink_.tx->push(PktPtr(pkt));
  return true;
}

bool Bundler::add(rte_mbuf* pkt, const PacketView& v, Nanos now) noexcept {
  return v.version == 6 ? add_as<true>(pkt, v, now) : add_as<false>(pkt, v, now);
}

template <bool kV6>
bool Bundler::add_as(rte_mbuf* pkt, const PacketView& v, Nanos now) noexcept {
  if (v.kind == Kind::kUdp) [[likely]] {
    const Facts<kV6> f(*pkt, v);
    if (carries_on(*pkt, v, f)) {
      const uint32_t slot = last_;
      note_arrival(slots_[slot], now_us(now));
      ++count_.bundle_in;
      join(slots_[slot], pkt, f);
      flush_full(slot, f, now);
      return true;
    }
  }
  const uint8_t* ip = data(*pkt) + v.l2_len;
  const Pair pair = pair_of(ip, kV6);
  uint64_t hash = 0;
  uint32_t slot = last_;
  const Slot& before = slots_[slot];
  const bool same = kV6 ? before.pair == pair : before.pair.words[0] == pair.words[0];
  if (!same || before.v6 != kV6) {
    hash = hash_of(pair, kV6, secret_);
    slot = find(pair, kV6, hash);
  }
  const bool holding = slot != 0 && slots_[slot].count != 0;
  const uint16_t cap = holding           ? slots_[slot].cap
                       : limits_.observe ? limits_.mtu
                                         : std::min(hosts_.size_of(destination_of(ip, kV6), now), limits_.mtu);
  if (cap == 0) return false;
  if (uint64_t Counters::*why = unfit<kV6>(*pkt, v); why != nullptr)
    return pass(count_.*why, slot, why == &Counters::bundle_not_checksum ? End::kChecksum : End::kOther, pkt, now);
  // What the port merged has several datagrams under one header.
  if ((pkt->ol_flags & RTE_MBUF_F_RX_LRO) != 0) [[unlikely]]
    return pass(count_.bundle_not_form, slot, End::kOther, pkt, now);
  if (!pxio::writable(*pkt) || rte_pktmbuf_headroom(pkt) < front_bytes(family(kV6)) || pkt->nb_segs >= limits_.max_segs)
    return pass(count_.bundle_not_buffer, slot, End::kOther, pkt, now);
  Facts<kV6> f(*pkt, v);
  if (f.lone_size() > cap)
    return pass(count_.bundle_not_size, slot, End::kOther, pkt, now);
  if (slot == 0 && (slot = make(pair, kV6, hash)) == 0) return pass(count_.bundle_no_slot, 0, End::kOther, pkt, now);
  last_ = slot;
  last_ports_ = f.ports();
  Slot& s = slots_[slot];
  note_arrival(s, now_us(now));
  if (s.count != 0) {
    if (s.same != f.same || s.macs_a != f.macs_a || s.macs_b != f.macs_b || s.tags != f.tags) {
      flush(slot, End::kHeaders, now);
    } else if (s.size + f.record() > s.cap) {
      flush(slot, End::kFull, now);
    } else if (s.buffers + pkt->nb_segs > limits_.max_segs) {
      flush(slot, End::kCount, now);
    }
  }
  // Proved only when there is something to share with: a lone datagram isn't read.
  if (kV6 && s.count != 0 && !limits_.observe) {
    f.proved = f.proved || prove(*pkt, f.l2_len);
    if (!f.proved) return pass(count_.bundle_not_checksum, slot, End::kChecksum, pkt, now);
    if (s.unproved && !prove(*s.head, s.l2_len)) flush(slot, End::kChecksum, now);
    s.unproved = false;
  }
  ++count_.bundle_in;
  // The oldest makes room; it may be this one's pair.
  if (held_datagrams_ >= limits_.max_held) flush(links_[0].next, End::kCount, now);
  note_fresh(slot, now);
  if (s.count == 0) {
    s.cap = cap;
    start(slot, limits_.observe ? nullptr : pkt, f, now);
  } else {
    join(s, limits_.observe ? nullptr : pkt, f);
  }
  flush_full(slot, f, now);
  return !limits_.observe;
}

template <bool kV6>
void Bundler::start(uint32_t slot, rte_mbuf* pkt, const Facts<kV6>& f, Nanos now) noexcept {
  Slot& s = slots_[slot];
  s.macs_a = f.macs_a;
  s.macs_b = f.macs_b;
  s.tags = f.tags;
  s.same = f.same;
  s.head = pkt;
  s.last = nullptr;
  s.mark = f.mark;
  s.first_len = f.length;
  s.size = static_cast<uint16_t>(f.lone_size());
  s.buffers = f.segs;
  s.unproved = kV6 && !f.proved;
  s.count = 1;
  // The line into which its headers will move.
  if (pkt != nullptr) __builtin_prefetch(data(*pkt) - front_bytes(family(kV6)), 1);
  s.l2_len = f.l2_len;
  s.v6 = kV6;
  s.sum = kV6 ? record_sum(s.pair, f.mark, f.length) : 0;
  links_[slot].since = now;
  pxio::link_youngest(links_.get(), slot);
  ++held_;
  held_datagrams_ += pkt != nullptr;
}

template <bool kV6>
inline void Bundler::join(Slot& s, rte_mbuf* pkt, const Facts<kV6>& f) noexcept {
  if (kV6) {
    const uint16_t sum = record_sum(s.pair, f.mark, f.length);
    s.sum = pxio::fold(uint64_t{s.sum} + (s.size % 2 != 0 ? pxio::swap_odd(sum) : sum));
  }
  ++s.count;
  held_datagrams_ += pkt != nullptr;
  s.size = static_cast<uint16_t>(s.size + f.record());
  if (pkt == nullptr) {
    s.buffers = static_cast<uint16_t>(s.buffers + f.segs);
    return;
  }
  const auto mark_len = static_cast<uint16_t>(mark_bytes(family(kV6)));
  const auto headers = static_cast<uint16_t>(s.l2_len + ip_bytes(family(kV6)));
  if (s.last == nullptr) {  // until here it could have left as it came
    pxio::trim_to(*s.head, uint32_t{headers} + s.first_len);
    s.last = rte_pktmbuf_lastseg(s.head);
  }
  pxio::trim_to(*pkt, uint32_t{headers} + f.length);
  // The mark takes the place of the last bytes of the IP header.
  rte_mbuf* tail = pxio::strip_front(pkt, static_cast<uint16_t>(headers - mark_len));
  if (kV6) {
    const be32 mark(f.mark);
    std::memcpy(data(*tail), &mark, sizeof mark);
  } else {
    const be16 mark(static_cast<uint16_t>(f.mark));
    std::memcpy(data(*tail), &mark, sizeof mark);
  }
  s.last = pxio::append(*s.head, *s.last, PktPtr(tail));
  s.buffers = s.head->nb_segs;
}

// The first datagram's link and IP header move forward, and what is between them and its UDP header is
// written.
void Bundler::finish(Slot& s, uint16_t port) noexcept {
  rte_mbuf& m = *s.head;
  const size_t ip_len = ip_bytes(family(s.v6));
  const auto front = static_cast<uint16_t>(front_bytes(family(s.v6)));
  // What is read is read before the headers move: a read behind so wide a write, into a line that is new, waits.
  const auto old = pxio::load<pxio::Ipv4Header>(data(m) + s.l2_len);
  uint8_t* p = pxio::prepend(m, front);
  if (s.l2_len == kEthernet && !s.v6) [[likely]] {
    move_forward<kEthernet + pxio::kIpv4HeaderLen>(p, p + front);
  } else if (s.l2_len == kEthernet) {
    move_forward<kEthernet + pxio::kIpv6HeaderLen>(p, p + front);
  } else {
    std::memmove(p, p + front, s.l2_len + ip_len);
  }
  uint8_t* ip = p + s.l2_len;
  const be16 udp_len(static_cast<uint16_t>(s.size - ip_len));
  const auto* addresses = reinterpret_cast<const uint8_t*>(s.pair.words.data());
  pxio::UdpHeader udp{be16(source_port(family(s.v6), addresses)), be16(port), udp_len, be16(0)};
  const size_t records = s.size - ip_len - kUdpBytes - sizeof(Header);
  const uint8_t ecn = s.v6 ? Facts<true>::ecn(s.same) : Facts<false>::ecn(s.same);
  const Header header{be16(kWireMagic), kWireVersion << 4 | static_cast<uint8_t>(Type::kCaravan), ecn, s.count, 0,
                      be16(static_cast<uint16_t>(records))};
  if (s.v6) {
    reinterpret_cast<pxio::Ipv6Header*>(ip)->payload_len = udp_len;
    const uint64_t sum = pseudo_sum(Family::kIpv6, addresses, addresses + 16, udp_len.host()) + pxio::sum_words(&udp, sizeof udp) +
                         pxio::sum_words(&header, sizeof header) + s.sum;
    const auto checksum = static_cast<uint16_t>(~pxio::fold(sum));
    udp.checksum = be16::from_raw(checksum != 0 ? checksum : uint16_t{0xffff});
  } else {
    auto& v4 = *reinterpret_cast<pxio::Ipv4Header*>(ip);
    const be16 len(s.size);
    v4.checksum = pxio::update_checksum(old.checksum, old.total_len.raw(), len.raw());
    v4.total_len = len;
  }
  std::memcpy(ip + ip_len, &udp, sizeof udp);
  std::memcpy(ip + ip_len + kUdpBytes, &header, sizeof header);
  uint8_t* mark = ip + ip_len + kUdpBytes + sizeof header;
  if (s.v6) {
    const be32 value(s.mark);
    std::memcpy(mark, &value, sizeof value);
  } else {
    const be16 value(static_cast<uint16_t>(s.mark));
    std::memcpy(mark, &value, sizeof value);
  }
}

// Whether a datagram that nothing joined follows a caravan so soon that it has to be one, too.
bool Bundler::lone_in_caravan(Slot& s, uint32_t now_us) noexcept {
  if (s.last_caravan_us == 0 || now_us - s.last_caravan_us >= linger_us_) return false;
  if (s.unproved && !prove(*s.head, s.l2_len)) return false;
  pxio::trim_to(*s.head, uint32_t{s.l2_len} + static_cast<uint32_t>(ip_bytes(family(s.v6))) + s.first_len);
  return true;
}

void Bundler::flush(uint32_t slot, End why, Nanos now) noexcept {
  Slot& s = slots_[slot];
  pxio::unlink_place(links_.get(), slot);
  --held_;
  const uint8_t n = s.count;
  rte_mbuf* head = s.head;
  const bool caravan = n > 1 || (head != nullptr && lone_in_caravan(s, now_us(now)));
  if (!caravan) {
    ++count_.bundle_alone;
  } else {
    ++(n == 1 ? count_.bundle_lone : count_.*kEndCounter[static_cast<size_t>(why)]);
    ++(head != nullptr ? count_.bundle_out_caravans : count_.observed_caravans);
    (head != nullptr ? count_.bundle_out_datagrams : count_.observed_datagrams) += n;
  }
  if (head != nullptr) held_datagrams_ -= n;
  if (head != nullptr && caravan) {
    finish(s, limits_.port);
    s.last_caravan_us = std::max(1u, now_us(now));
  }
  s.count = 0;
  s.head = nullptr;
  if (head == nullptr) return;
  const auto held_us = static_cast<uint64_t>(std::max<int64_t>(0, (now - links_[slot].since).count())) / 1000;
  ++(*sink_.hold_histogram)[std::min<size_t>(std::bit_width(held_us), sink_.hold_histogram->size() - 1)];
  sink_.tx->push(PktPtr(head));
}

void Bundler::end_burst(Nanos now) noexcept {
  // A slot may stand here twice: what counts is its state now.
  for (uint16_t i = 0; i < fresh_n_; ++i) {
    const Slot& s = slots_[fresh_[i]];
    if (s.count != 0 && (s.score < kStream || hold_us_ == 0)) flush(fresh_[i], End::kBurst, now);
  }
  fresh_n_ = 0;
}

void Bundler::flush_expired(Nanos now) noexcept {
  for (uint32_t s = links_[0].next; s != 0 && links_[s].since + limits_.hold <= now; s = links_[0].next)
    flush(s, End::kHold, now);
}

void Bundler::flush_all(Nanos now) noexcept {
  while (links_[0].next != 0) flush(links_[0].next, End::kDrain, now);
  fresh_n_ = 0;
}

std::optional<Nanos> Bundler::next_deadline() const noexcept {
  if (links_[0].next == 0) return std::nullopt;
  return links_[links_[0].next].since + limits_.hold;
}

}  // namespace caravan
