// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/probe_fragments.h"

#include <algorithm>
#include <random>

#include "pxio/dp/wire.h"

namespace pxgw {

using pxio::Nanos;

ProbeFragments::ProbeFragments() : entries_(std::make_unique<Entry[]>(kSets * kWays)) {
  std::random_device rd;
  secret_ = (uint64_t{rd()} << 32 | rd()) | 1;
}

ProbeFragments::Entry* ProbeFragments::set_of(const ProbeFragment& f) const noexcept {
  const auto p = static_cast<unsigned __int128>((uint64_t{f.src} << 32 | f.dst) ^ secret_) *
                 ((uint64_t{f.id} << 17) ^ ~secret_);
  const auto h = static_cast<uint64_t>(p) ^ static_cast<uint64_t>(p >> 64);
  return &entries_[(h % kSets) * kWays];
}

ProbeFragments::Entry* ProbeFragments::find(const ProbeFragment& f, Nanos now) const noexcept {
  Entry* set = set_of(f);
  for (Entry* e = set; e < set + kWays; ++e)
    if (e->in_use && e->src == f.src && e->dst == f.dst && e->id == f.id && now - e->since <= kLifetime)
      return e;
  return nullptr;
}

ProbeFragments::Verdict ProbeFragments::first(const ProbeFragment& f, uint16_t from_port, uint16_t payload,
                                              std::span<const uint8_t, fpmtud::kProbeBytes> header,
                                              Nanos now) noexcept {
  if (Entry* e = find(f, now)) {
    e->spoilt = true;
    return Verdict::kTaken;
  }
  if (payload + sizeof(pxio::UdpHeader) > kUnits * 8) return Verdict::kNotOurs;
  Entry* set = set_of(f);
  Entry* oldest = set;
  for (Entry* e = set; e < set + kWays && oldest->in_use; ++e)
    if (!e->in_use || e->since < oldest->since) oldest = e;
  *oldest = Entry{.src = f.src, .dst = f.dst, .id = f.id, .in_use = true, .since = now};
  oldest->probe.from_port = from_port;
  oldest->probe.payload = payload;
  std::copy(header.begin(), header.end(), oldest->probe.header.begin());
  return add(*oldest, f);
}

ProbeFragments::Verdict ProbeFragments::later(const ProbeFragment& f, Nanos now) noexcept {
  Entry* e = find(f, now);
  return e != nullptr ? add(*e, f) : Verdict::kNotOurs;
}

ProbeFragments::Verdict ProbeFragments::add(Entry& e, const ProbeFragment& f) noexcept {
  const uint32_t whole = e.probe.payload + uint32_t{sizeof(pxio::UdpHeader)};
  const uint32_t end = uint32_t{f.offset} + f.length;
  // All but the last carry multiples of 8, the last ends where the datagram does (RFC 791).
  if (f.length == 0 || (f.more ? f.length % 8 != 0 || end >= whole : end != whole)) e.spoilt = true;
  if (e.spoilt) return Verdict::kTaken;
  const size_t from = f.offset / 8u, to = (end + 7) / 8;
  for (size_t i = from; i < to; ++i) {
    if (e.seen[i]) e.spoilt = true;
    e.seen[i] = true;
  }
  e.units_seen = static_cast<uint16_t>(e.units_seen + (to - from));
  e.probe.largest_fragment = std::max(e.probe.largest_fragment, f.ip_len);
  if (e.spoilt || e.units_seen != (whole + 7) / 8) return Verdict::kTaken;
  done_ = e.probe;
  e.in_use = false;
  return Verdict::kComplete;
}

}  // namespace pxgw
