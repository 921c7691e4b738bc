// SPDX-License-Identifier: BSD-3-Clause
// Time and directions. Any thread.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace pxio {

// Time since an arbitrary start, the same for all that a worker sees. The data path has no clock:
// `now` is read once per poll by whoever drives it and handed down.
using Nanos = std::chrono::nanoseconds;
using namespace std::chrono_literals;

// The way a packet travels. Inbound runs outside to inside and is merged, outbound is split.
enum class Direction : uint8_t { kInbound = 0, kOutbound = 1 };

constexpr Direction reverse(Direction d) {
  return d == Direction::kInbound ? Direction::kOutbound : Direction::kInbound;
}
constexpr size_t index(Direction d) { return static_cast<size_t>(d); }

// Packets a receive burst at most; the stages' scratch arrays have this size.
inline constexpr uint16_t kBurst = 32;

}  // namespace pxio
