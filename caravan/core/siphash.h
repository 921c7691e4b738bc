// SPDX-License-Identifier: BSD-3-Clause
// SipHash-2-4 (Aumasson, Bernstein, 2012) with 64 bits: a MAC for short messages that needs no
// allocation, for cookies and nonces. Any thread.
#pragma once
#include <array>
#include <cstdint>
#include <span>

namespace caravan {

using Secret = std::array<uint64_t, 2>;  // random, never sent

uint64_t siphash(const Secret& key, std::span<const uint8_t> bytes) noexcept;

}  // namespace caravan
