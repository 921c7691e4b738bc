// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/pmtu_cache.h"

#include <algorithm>
#include <bit>
#include <random>

namespace pxgw {

using pxio::Ticks;

namespace {

// An answer takes 6 s at most where nobody listens, some more where control is busy.
constexpr Ticks kPendingFor = pxio::to_ticks(std::chrono::seconds(30));
// Between two probes of a path that errors or losses call into question.
constexpr Ticks kLeastBetween = pxio::to_ticks(std::chrono::seconds(1));
// And of one that loses a packet now and then.
constexpr Ticks kDoubtAfter = pxio::to_ticks(std::chrono::seconds(10));

}  // namespace

PmtuCache::PmtuCache(uint32_t capacity) {
  const uint64_t sets = std::bit_ceil((uint64_t{capacity} + kWays - 1) / kWays);
  mask_ = sets - 1;
  std::random_device rd;
  secret_ = (uint64_t{rd()} << 32 | rd()) | 1;
  entries_ = std::make_unique<Entry[]>(sets * kWays);
}

PmtuCache::Entry* PmtuCache::set_of(const PathKey& to) const noexcept {
  const auto p = static_cast<unsigned __int128>(to.addr[0] ^ secret_) * (to.addr[1] ^ ~secret_);
  const auto h = static_cast<uint64_t>(p) ^ static_cast<uint64_t>(p >> 64);
  return &entries_[(h & mask_) * kWays];
}

PmtuCache::Entry* PmtuCache::known(const PathKey& to) const noexcept {
  Entry* set = set_of(to);
  for (uint32_t k = 0; k < kWays; ++k)
    if (set[k].to == to) return &set[k];
  return nullptr;
}

PmtuCache::Entry& PmtuCache::entry_of(const PathKey& to, Ticks now) noexcept {
  Entry* set = set_of(to);
  Entry* best = set;
  for (uint32_t k = 0; k < kWays; ++k) {
    Entry& e = set[k];
    if (e.to == to) return e;
    if (best->to.version != 0 && (e.to.version == 0 || e.used(now) > best->used(now))) best = &e;
  }
  *best = Entry{.to = to, .since = now};
  return *best;
}

PmtuCache::Path PmtuCache::find(const PathKey& to, Ticks now) const noexcept {
  const Entry* e = known(to);
  if (e == nullptr || e->mtu == 0 || now - e->since > timeout_) return {};
  return {e->mtu, e->confirmed};
}

bool PmtuCache::lower(const PathKey& to, uint16_t mtu, Ticks now) noexcept {
  Entry& e = entry_of(to, now);
  const bool fresh = e.mtu != 0 && now - e.since <= timeout_;
  if (fresh && e.mtu <= mtu) {
    // Said again: a value that was measured stays one.
    if (!e.confirmed) e.since = now;
    return false;
  }
  const bool was_confirmed = fresh && e.confirmed;
  e.mtu = mtu;
  e.since = now;
  e.confirmed = false;
  return was_confirmed;
}

void PmtuCache::confirm(const PathKey& to, uint16_t mtu, Ticks now) noexcept {
  Entry& e = entry_of(to, now);
  e.mtu = mtu;
  e.since = e.probed = now;
  e.confirmed = true;
  e.probe = Probe::kDone;
}

void PmtuCache::silent(const PathKey& to, Ticks now) noexcept {
  Entry& e = entry_of(to, now);
  e.probe = Probe::kSilent;  // silence is no size: a value lives on until it has aged
  e.probed = now;
}

void PmtuCache::pending(const PathKey& to, Ticks now) noexcept {
  Entry& e = entry_of(to, now);
  e.probe = Probe::kPending;
  e.probed = now;
}

bool PmtuCache::wants_probe(const PathKey& to, Ticks now) const noexcept {
  const Entry* e = known(to);
  if (e == nullptr) return true;
  const Ticks ago = now - e->probed;
  switch (e->probe) {
    case Probe::kNever: return true;
    case Probe::kPending: return ago > kPendingFor;
    case Probe::kSilent: return ago > retry_;
    case Probe::kDone: break;
  }
  return ago > (e->confirmed ? timeout_ / 2 : kLeastBetween);
}

bool PmtuCache::wants_probe_in_doubt(const PathKey& to, Ticks now) const noexcept {
  const Entry* e = known(to);
  const bool old = e != nullptr && e->probe == Probe::kDone && now - e->probed > kDoubtAfter;
  return old || wants_probe(to, now);
}

void PmtuCache::forget(const PathKey& to) noexcept {
  if (Entry* e = known(to)) *e = Entry{};
}

void PmtuCache::clear() noexcept { std::fill_n(entries_.get(), (mask_ + 1) * kWays, Entry{}); }

}  // namespace pxgw
