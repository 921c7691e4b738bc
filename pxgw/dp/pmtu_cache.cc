// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/pmtu_cache.h"

#include <algorithm>
#include <bit>
#include <random>

namespace pxgw {

PmtuCache::PmtuCache(uint32_t capacity) {
  const uint64_t sets = std::bit_ceil((uint64_t{capacity} + kWays - 1) / kWays);
  mask_ = sets - 1;
  std::random_device rd;
  secret_ = (uint64_t{rd()} << 32 | rd()) | 1;
  entries_ = std::make_unique<Entry[]>(sets * kWays);
}

PmtuCache::Entry* PmtuCache::set_of(const Address& a) const noexcept {
  const auto p = static_cast<unsigned __int128>(a[0] ^ secret_) * (a[1] ^ ~secret_);
  const auto h = static_cast<uint64_t>(p) ^ static_cast<uint64_t>(p >> 64);
  return &entries_[(h & mask_) * kWays];
}

uint16_t PmtuCache::find(const Address& a, uint32_t version, pxio::Ticks now) const noexcept {
  const Entry* set = set_of(a);
  for (uint32_t k = 0; k < kWays; ++k) {
    const Entry& e = set[k];
    if (e.version == version && e.addr == a) return now - e.since <= timeout_ ? e.mtu : uint16_t{0};
  }
  return 0;
}

void PmtuCache::lower(const Address& a, uint32_t version, uint16_t mtu, pxio::Ticks now) noexcept {
  Entry* set = set_of(a);
  Entry* best = nullptr;
  for (uint32_t k = 0; k < kWays; ++k) {
    Entry& e = set[k];
    if (e.version == version && e.addr == a) {
      e.mtu = now - e.since <= timeout_ ? std::min(e.mtu, mtu) : mtu;
      e.since = now;
      return;
    }
    if (best == nullptr || e.version == 0 || (best->version != 0 && now - e.since > now - best->since))
      best = &e;
  }
  *best = Entry{a, version, now, mtu};
}

}  // namespace pxgw
