// SPDX-License-Identifier: BSD-3-Clause
// What is known of paths, by destination: bounded, ageing. Errors and retransmissions lower a value at once
// and may be wrong; a probe alone raises it. When a value has aged, the path is what paths are assumed to be
// (RFC 1191, section 6.3). Worker thread.
#pragma once
#include <cstdint>
#include <memory>

#include "pxgw/dp/path_key.h"
#include "pxio/dp/flow_table.h"
#include "pxio/dp/units.h"

namespace pxgw {

class PmtuCache {
 public:
  struct Path {
    uint16_t mtu = 0;        // 0: nothing known
    bool confirmed = false;  // by a probe, and not lowered since
  };

  explicit PmtuCache(uint32_t capacity);
  // How long values are good for, and after which time a silent destination is probed again.
  void set_times(pxio::Nanos value, pxio::Nanos retry) noexcept {
    timeout_ = pxio::to_ticks(value);
    retry_ = pxio::to_ticks(retry);
  }

  Path find(const PathKey& to, pxio::Ticks now) const noexcept;
  // What follows makes an entry where there is none, in the place of the oldest of its set.
  // Lowers the value. Returns whether a probe had confirmed a larger one.
  bool lower(const PathKey& to, uint16_t mtu, pxio::Ticks now) noexcept;
  void confirm(const PathKey& to, uint16_t mtu, pxio::Ticks now) noexcept;
  void silent(const PathKey& to, pxio::Ticks now) noexcept;
  void pending(const PathKey& to, pxio::Ticks now) noexcept;
  // Whether a probe is due: never probed, half of the value's time gone, lowered since, or silent for long.
  bool wants_probe(const PathKey& to, pxio::Ticks now) const noexcept;
  // The same where a packet that a probe says to fit had to be sent again: a confirmed value some time later.
  bool wants_probe_in_doubt(const PathKey& to, pxio::Ticks now) const noexcept;
  void forget(const PathKey& to) noexcept;
  void clear() noexcept;

 private:
  enum class Probe : uint8_t { kNever, kPending, kSilent, kDone };
  struct Entry {
    PathKey to;              // version 0: free
    pxio::Ticks since = 0;   // of the value
    pxio::Ticks probed = 0;  // of `probe`
    uint16_t mtu = 0;        // 0: none
    Probe probe = Probe::kNever;
    bool confirmed = false;
    pxio::Ticks used(pxio::Ticks now) const noexcept {  // ago
      const pxio::Ticks a = now - since, b = now - probed;
      return probe == Probe::kNever ? a : mtu == 0 ? b : a < b ? a : b;
    }
  };
  static constexpr uint32_t kWays = 4;
  Entry* set_of(const PathKey& to) const noexcept;
  Entry* known(const PathKey& to) const noexcept;
  Entry& entry_of(const PathKey& to, pxio::Ticks now) noexcept;
  uint64_t mask_;
  uint64_t secret_;
  pxio::Ticks timeout_ = 0, retry_ = 0;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace pxgw
