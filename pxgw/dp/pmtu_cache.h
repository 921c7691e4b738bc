// SPDX-License-Identifier: BSD-3-Clause
// Path MTUs below that of the port, by destination: bounded, ageing. Values only go down while an entry
// lives; when it has aged the path counts as wide again (RFC 1191, section 6.3). Worker thread.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "pxio/dp/flow_table.h"
#include "pxio/dp/units.h"

namespace pxgw {

using Address = std::array<uint64_t, 2>;  // IPv4: in the first word, the second is 0

class PmtuCache {
 public:
  explicit PmtuCache(uint32_t capacity);
  void set_timeout(pxio::Nanos t) noexcept { timeout_ = pxio::to_ticks(t); }
  // 0: nothing known.
  uint16_t find(const Address& a, uint32_t version, pxio::Ticks now) const noexcept;
  // Lowers the value, or makes an entry in the place of the oldest of its set.
  void lower(const Address& a, uint32_t version, uint16_t mtu, pxio::Ticks now) noexcept;

 private:
  struct Entry {
    Address addr{};
    uint32_t version = 0;  // 0: free
    pxio::Ticks since = 0;
    uint16_t mtu = 0;
  };
  static constexpr uint32_t kWays = 4;
  Entry* set_of(const Address& a) const noexcept;
  uint64_t mask_;
  uint64_t secret_;
  pxio::Ticks timeout_ = 0;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace pxgw
