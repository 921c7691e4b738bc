// SPDX-License-Identifier: BSD-3-Clause
// An address as destinations are told apart by. Any thread.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>

namespace pxgw {

using Address = std::array<uint64_t, 2>;  // network order; IPv4 in the first four bytes, the rest is 0

struct PathKey {
  Address addr{};
  uint32_t version = 0;  // 4 or 6; 0: none
  uint32_t unused = 0;   // no padding: compared and copied whole
  bool operator==(const PathKey&) const = default;

  static PathKey of(uint8_t version, const void* bytes) noexcept {
    PathKey k;
    k.version = version;
    std::memcpy(k.addr.data(), bytes, version == 4 ? 4 : 16);
    return k;
  }
  const uint8_t* bytes() const noexcept { return reinterpret_cast<const uint8_t*>(addr.data()); }
};

}  // namespace pxgw
