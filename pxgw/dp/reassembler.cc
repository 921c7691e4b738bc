// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/reassembler.h"

#include <algorithm>
#include <bit>

#include "pxio/dp/age_list.h"
#include "pxio/dp/checksum.h"

namespace pxgw {

using namespace pxio;

namespace {

constexpr uint8_t kCe = 3;
// The byte behind the version has ECN's bits: its lowest, or on IPv6 those above the flow label's.
constexpr unsigned ecn_shift(bool v6) { return v6 ? 4 : 0; }

uint8_t ecn_of(const rte_mbuf& m, uint32_t l2_len, bool v6) {
  return data(m)[l2_len + 1] >> ecn_shift(v6) & caravan::kEcnMask;
}

// TOS, or class and flow label, without ECN.
uint32_t marks(const rte_mbuf& m, uint32_t l2_len, bool v6) {
  const uint8_t* ip = data(m) + l2_len;
  return (v6 ? load<uint32_t>(ip) : uint32_t{ip[1]} << 8) & ~(uint32_t{caravan::kEcnMask} << 8 << ecn_shift(v6));
}

// A bit for each codepoint that fragments bear. CE stands for the whole where all others could bear it (RFC 3168,
// section 5.3).
bool ecn_agrees(unsigned seen) {
  constexpr unsigned kMarked = 1u << kCe, kEct1 = 1u << 1, kEct0 = 1u << 2;
  return std::has_single_bit(seen) || seen == (kMarked | kEct0) || seen == (kMarked | kEct1);
}

void set_ce(uint8_t* ip, bool v6) {
  if (v6) {
    ip[1] |= kCe << ecn_shift(v6);
    return;
  }
  auto& h = *reinterpret_cast<Ipv4Header*>(ip);
  const auto before = load<uint16_t>(ip);
  ip[1] |= kCe;
  h.checksum = update_checksum(h.checksum, before, load<uint16_t>(ip));
}

}  // namespace

struct Reassembler::Fragment {
  uint32_t id;
  uint16_t offset, length, headers;
  uint8_t l2_len;
  bool more, v6;
  uint32_t end() const { return uint32_t{offset} + length; }
};

Reassembler::Reassembler(uint32_t capacity, uint64_t secret, Counters& counters)
    : count_(counters),
      secret_(secret),
      mask_(std::bit_ceil(std::max(capacity, kWays) / kWays) - 1),
      places_(make_zeroed<Place>(size_t{mask_ + 1} * kWays + 1)) {}

Reassembler::~Reassembler() {
  Out out;
  for (uint16_t n; (n = take_oldest(out)) != 0;)
    for (uint16_t i = 0; i < n; ++i) PktPtr(out[i]).reset();
}

// A whole fragment of UDP whose header says nothing odd, in buffers that are ours to change.
bool Reassembler::read(const rte_mbuf& m, const PacketView& v, Fragment& f) noexcept {
  const uint8_t* ip = data(m) + v.l2_len;
  f.v6 = v.version == 6;
  f.l2_len = v.l2_len;
  if (f.v6) {
    f.headers = static_cast<uint16_t>(v.l2_len + kIpv6HeaderLen + kIpv6FragmentHeaderLen);
    if (v.l3_len != kIpv6HeaderLen || m.data_len <= f.headers ||
        v.ip_len < kIpv6HeaderLen + kIpv6FragmentHeaderLen)
      return false;
    const uint8_t* h = ip + kIpv6HeaderLen;
    const uint16_t where = load<be16>(h + 2).host();
    if (h[0] != kProtoUdp || h[1] != 0 || (where & 6) != 0) return false;
    f.offset = where & kIpv6OffsetMask;
    f.more = (where & 1) != 0;
    f.id = load<uint32_t>(h + 4);
    f.length = static_cast<uint16_t>(v.ip_len - kIpv6HeaderLen - kIpv6FragmentHeaderLen);
  } else {
    f.headers = static_cast<uint16_t>(v.l2_len + kIpv4HeaderLen);
    if (v.l3_len != kIpv4HeaderLen || v.proto != kProtoUdp || m.data_len <= f.headers) return false;
    const auto& h = *reinterpret_cast<const Ipv4Header*>(ip);
    const uint16_t where = h.frag.host();
    if ((where & (kIpDf | kIpReserved)) != 0 || !ipv4_header_ok(h)) return false;
    f.offset = static_cast<uint16_t>((where & kIpOffsetMask) * 8);
    f.more = (where & kIpMf) != 0;
    f.id = h.id.raw();
    f.length = static_cast<uint16_t>(v.ip_len - kIpv4HeaderLen);
  }
  if (f.length == 0 || (f.more && f.length % 8 != 0) || (!f.more && f.offset == 0)) return false;
  return v.l2_len + v.ip_len <= m.pkt_len && writable(m);
}

// Whether it can be of the same datagram: like the first in what all must share, and over none of
// them. Datagrams whose fragments overlap are the receiver's to refuse (RFC 5722, section 3).
bool Reassembler::fits_with(const Place& p, const rte_mbuf& m, const Fragment& f) noexcept {
  const rte_mbuf& first = *p.pieces[0].pkt;
  if (p.count == kMostFragments || p.l2_len != f.l2_len || p.headers != f.headers ||
      marks(first, p.l2_len, p.v6) != marks(m, f.l2_len, f.v6) ||
      !std::equal(data(m), data(m) + f.l2_len, data(first)))
    return false;
  if (!ecn_agrees(p.ecn | 1u << ecn_of(m, f.l2_len, f.v6))) return false;
  if (p.total != 0 && (f.end() > p.total || !f.more)) return false;
  return std::none_of(p.pieces.begin(), p.pieces.begin() + p.count, [&](const Piece& o) {
    const uint32_t end = uint32_t{o.offset} + o.length;
    return (f.offset < end && o.offset < f.end()) || (!f.more && end > f.end());
  });
}

uint16_t Reassembler::add(rte_mbuf* pkt, const PacketView& v, uint32_t largest, Nanos now,
                          Out& out) noexcept {
  out[0] = pkt;
  Fragment f;
  if (!read(*pkt, v, f)) return 1;
  const caravan::Pair pair = caravan::pair_of(data(*pkt) + f.l2_len, f.v6);
  const uint64_t hash = caravan::hash_of(pair, f.v6, secret_ ^ f.id * 0x9e3779b97f4a7c15ull);
  const uint32_t set = static_cast<uint32_t>(hash & mask_) * kWays + 1;
  uint32_t place = 0, free = 0;
  for (uint32_t i = set; i < set + kWays; ++i) {
    const Place& p = places_[i];
    const bool empty = p.state == Place::State::kFree;
    if (!empty && p.id == f.id && p.v6 == f.v6 && p.pair == pair) {
      place = i;
    } else if (empty || (p.state == Place::State::kGivenUp && free == 0)) {
      free = i;
    }
  }
  if (place == 0 && free == 0) {
    ++count_.reassembly_full;
    return 1;
  }
  if (place == 0) {
    place = free;
    Place& p = places_[place];
    if (p.state != Place::State::kFree) unlink_place(places_.get(), place);
    p = Place{};
    p.state = Place::State::kWaiting;
    p.pair = pair;
    p.since = now;
    p.id = f.id;
    p.headers = f.headers;
    p.l2_len = f.l2_len;
    p.v6 = f.v6;
    link_youngest(places_.get(), place);
  }
  Place& p = places_[place];
  if (p.state == Place::State::kGivenUp) return 1;
  const uint32_t headers = f.v6 ? kIpv6HeaderLen : kIpv4HeaderLen;
  if (headers + f.end() > largest || (p.count != 0 && !fits_with(p, *pkt, f))) {
    ++count_.reassembly_unfit;
    return give_up(p, pkt, out);
  }
  if (held_segs_ + pkt->nb_segs > kHeldPerPlace * kWays * (mask_ + 1)) {
    ++count_.reassembly_full;
    return give_up(p, pkt, out);
  }
  p.pieces[p.count++] = {pkt, f.offset, f.length};
  ++held_;
  held_segs_ += pkt->nb_segs;
  p.bytes += f.length;
  p.ecn = static_cast<uint8_t>(p.ecn | 1u << ecn_of(*pkt, f.l2_len, f.v6));
  p.segs = static_cast<uint16_t>(p.segs + pkt->nb_segs);
  if (!f.more) p.total = f.end();
  // None overlaps another: as many bytes are all of them.
  if (p.total == 0 || p.bytes != p.total) return 0;
  // What the host takes may have changed meanwhile.
  if (p.segs > limits_.max_segs || headers + p.total > largest) {
    ++count_.reassembly_unfit;
    return release(place, out);
  }
  count_.reassembled_fragments += p.count;
  ++count_.reassembled_pkts;
  rte_mbuf* whole = join(p);
  release(place, out);
  out[0] = whole;
  return 1;
}

// The pieces in their order behind the first one's headers. Their checksum stays what the sender
// made of it.
rte_mbuf* Reassembler::join(Place& p) noexcept {
  std::sort(p.pieces.begin(), p.pieces.begin() + p.count,
            [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  rte_mbuf* head = p.pieces[0].pkt;
  trim_to(*head, uint32_t{p.headers} + p.pieces[0].length);
  if (!std::has_single_bit(p.ecn)) set_ce(data(*head) + p.l2_len, p.v6);
  if (p.v6) {
    uint8_t* ip = data(*head) + p.l2_len;
    ip[6] = kProtoUdp;
    const be16 length(static_cast<uint16_t>(p.total));
    std::memcpy(ip + 4, &length, sizeof length);
    uint8_t* from = data(*head);
    std::memmove(from + kIpv6FragmentHeaderLen, from, p.l2_len + size_t{kIpv6HeaderLen});
    head = strip_front(head, kIpv6FragmentHeaderLen);
  } else {
    auto& ip = header_at<Ipv4Header>(*head, p.l2_len);
    const be16 length(static_cast<uint16_t>(kIpv4HeaderLen + p.total)), whole(0);
    ip.checksum = update_checksum(ip.checksum, ip.total_len.raw(), length.raw());
    ip.checksum = update_checksum(ip.checksum, ip.frag.raw(), whole.raw());
    ip.total_len = length;
    ip.frag = whole;
  }
  // What a port said of one fragment says nothing of the datagram.
  head->ol_flags &= ~(RTE_MBUF_F_RX_L4_CKSUM_MASK | RTE_MBUF_F_RX_IP_CKSUM_MASK);
  rte_mbuf* last = rte_pktmbuf_lastseg(head);
  for (uint8_t i = 1; i < p.count; ++i) {
    rte_mbuf* m = p.pieces[i].pkt;
    trim_to(*m, uint32_t{p.headers} + p.pieces[i].length);
    last = append(*head, *last, PktPtr(strip_front(m, p.headers)));
  }
  return head;
}

// Its fragments are in `out` as they came.
uint16_t Reassembler::empty(Place& p, Out& out) noexcept {
  const uint8_t n = p.count;
  for (uint8_t i = 0; i < n; ++i) out[i] = p.pieces[i].pkt;
  held_ -= n;
  held_segs_ -= p.segs;
  p.segs = 0;
  p.count = 0;
  return n;
}

uint16_t Reassembler::release(uint32_t place, Out& out) noexcept {
  Place& p = places_[place];
  unlink_place(places_.get(), place);
  p.state = Place::State::kFree;
  return empty(p, out);
}

// The place remembers that what else comes of the datagram needn't wait.
uint16_t Reassembler::give_up(Place& p, rte_mbuf* pkt, Out& out) noexcept {
  const uint16_t n = empty(p, out);
  p.state = Place::State::kGivenUp;
  out[n] = pkt;
  return static_cast<uint16_t>(n + 1);
}

uint16_t Reassembler::take_expired(Nanos now, Out& out) noexcept {
  while (const uint32_t oldest = places_[0].next) {
    if (places_[oldest].since + limits_.timeout > now) break;
    if (const uint16_t n = release(oldest, out)) {
      ++count_.reassembly_expired;
      return n;
    }
  }
  return 0;
}

uint16_t Reassembler::take_oldest(Out& out) noexcept {
  while (const uint32_t oldest = places_[0].next)
    if (const uint16_t n = release(oldest, out)) return n;
  return 0;
}

}  // namespace pxgw
