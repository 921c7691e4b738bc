// SPDX-License-Identifier: BSD-3-Clause
// The hosts that take caravans: a table of fixed size that all workers of a gateway share. Reading
// takes no lock and waits for nobody; writing (a hello, at most some a second and host) may fail
// where two writers meet on an entry, which the host's next hello mends.
#pragma once
#include <atomic>
#include <memory>

#include "caravan/core/hello.h"
#include "caravan/core/siphash.h"

namespace caravan {

struct Host {
  Address address;
  uint16_t size = 0;  // the largest caravan that it takes
  Time until{};       // Time::max(): by configuration
};

class HostTable {
 public:
  // `capacity` hosts, rounded up to a power of two; `secret` keeps strangers from choosing
  // addresses that displace each other. Throws std::bad_alloc.
  HostTable(uint32_t capacity, const Secret& secret);

  // The largest caravan that the host takes now; 0: it hasn't asked, or not again. Any thread.
  uint16_t size_of(const Address& host, Time now) const noexcept;
  // Any thread. False: no room, or another writer was at it. A host of the configuration stays as
  // it is.
  bool set(const Host& host, Time now) noexcept;
  void erase(const Address& host) noexcept;
  // Any thread; what changes meanwhile may be missing.
  template <typename F>
  void for_each(Time now, F&& f) const {
    for (uint32_t i = 0; i <= mask_; ++i)
      for (const Entry& e : sets_[i].ways) {
        Host h;
        if (read(e, h) && h.size != 0 && h.until > now) f(h);
      }
  }
  uint32_t capacity() const { return (mask_ + 1) * kWays; }

 private:
  static constexpr uint32_t kWays = 8;
  struct Entry {
    std::atomic<uint32_t> version{0};  // odd: being written
    std::atomic<uint32_t> what{0};     // family and size
    std::atomic<uint64_t> high{0}, low{0};
    std::atomic<int64_t> until{0};
  };
  struct alignas(64) Set {
    std::array<Entry, kWays> ways;
  };
  const Set& set_of(const Address& a) const noexcept;
  static bool read(const Entry& e, Host& out) noexcept;
  static bool write(Entry& e, const Host& h) noexcept;

  uint32_t mask_;
  Secret secret_;
  std::unique_ptr<Set[]> sets_;
};

}  // namespace caravan
