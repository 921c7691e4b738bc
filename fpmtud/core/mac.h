// SPDX-License-Identifier: BSD-3-Clause
// HMAC-SHA256 (RFC 2104), cut to 16 bytes (section 5), and comparing without a trace in time.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace fpmtud {

using Mac = std::array<uint8_t, 16>;
using Key = std::vector<uint8_t>;  // 16 bytes and more

inline constexpr size_t kMinKeyBytes = 16, kMaxKeyBytes = 1024;

Mac mac_of(const Key& key, std::span<const uint8_t> bytes);
bool equal_in_constant_time(std::span<const uint8_t> a, std::span<const uint8_t> b);

}  // namespace fpmtud
