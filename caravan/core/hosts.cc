// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/core/hosts.h"

#include <algorithm>
#include <bit>

namespace caravan {
namespace {

uint64_t half(const Address& a, size_t at) { return pxio::load<uint64_t>(a.bytes.data() + at); }

}  // namespace

HostTable::HostTable(uint32_t capacity, const Secret& secret)
    : mask_(std::bit_ceil(std::max(capacity, kWays) / kWays) - 1),
      secret_(secret),
      sets_(std::make_unique<Set[]>(size_t{mask_} + 1)) {}

const HostTable::Set& HostTable::set_of(const Address& a) const noexcept {
  // Looked at for each datagram: two multiplications, keyed, are enough to spread.
  uint64_t h = (half(a, 0) ^ secret_[0]) * 0x9e3779b97f4a7c15ull;
  h = (h ^ h >> 29 ^ half(a, 8) ^ secret_[1]) * 0xbf58476d1ce4e5b9ull;
  return sets_[h >> 33 & mask_];
}

// Acquire on each field keeps the second look at the version behind them; release on each keeps the
// first change of it before them.
bool HostTable::read(const Entry& e, Host& out) noexcept {
  const uint32_t version = e.version.load(std::memory_order_acquire);
  if (version % 2 != 0) return false;
  const uint32_t what = e.what.load(std::memory_order_acquire);
  const uint64_t high = e.high.load(std::memory_order_acquire),
                 low = e.low.load(std::memory_order_acquire);
  out.until = Time(e.until.load(std::memory_order_acquire));
  if (e.version.load(std::memory_order_relaxed) != version) return false;
  out.address.family = static_cast<Family>(what >> 16);
  out.size = static_cast<uint16_t>(what);
  std::memcpy(out.address.bytes.data(), &high, sizeof high);
  std::memcpy(out.address.bytes.data() + 8, &low, sizeof low);
  return true;
}

bool HostTable::write(Entry& e, const Host& h) noexcept {
  uint32_t version = e.version.load(std::memory_order_relaxed);
  if (version % 2 != 0 ||
      !e.version.compare_exchange_strong(version, version + 1, std::memory_order_acq_rel))
    return false;
  e.what.store(static_cast<uint32_t>(h.address.family) << 16 | h.size, std::memory_order_release);
  e.high.store(half(h.address, 0), std::memory_order_release);
  e.low.store(half(h.address, 8), std::memory_order_release);
  e.until.store(h.until.count(), std::memory_order_release);
  e.version.store(version + 2, std::memory_order_release);
  return true;
}

uint16_t HostTable::size_of(const Address& host, Time now) const noexcept {
  for (const Entry& e : set_of(host).ways) {
    if (e.what.load(std::memory_order_relaxed) == 0 ||
        e.low.load(std::memory_order_relaxed) != half(host, 8) ||
        e.high.load(std::memory_order_relaxed) != half(host, 0))
      continue;
    Host h;
    // One who writes it at this moment renews it: once more is enough.
    if (!read(e, h) && !read(e, h)) continue;
    if (h.address == host && h.until > now) return h.size;
  }
  return 0;
}

bool HostTable::set(const Host& host, Time now) noexcept {
  Entry* free = nullptr;
  for (const Entry& c : set_of(host.address).ways) {
    auto& e = const_cast<Entry&>(c);
    Host h;
    if (!read(e, h)) continue;
    if (h.size != 0 && h.address == host.address) {
      if (h.until == Time::max() && host.until != Time::max()) return true;
      return write(e, host);
    }
    if (free == nullptr && (h.size == 0 || h.until <= now)) free = &e;
  }
  return free != nullptr && write(*free, host);
}

void HostTable::erase(const Address& host) noexcept {
  for (const Entry& c : set_of(host).ways) {
    Host h;
    if (read(c, h) && h.size != 0 && h.address == host && h.until != Time::max())
      write(const_cast<Entry&>(c), Host{});
  }
}

}  // namespace caravan
