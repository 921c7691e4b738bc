// SPDX-License-Identifier: BSD-3-Clause
// Families, addresses, sizes and time of path-MTU probing. No sockets, no clock: any thread.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>

namespace fpmtud {

// Since an arbitrary start, the same for all calls on one object.
using Time = std::chrono::nanoseconds;
using namespace std::chrono_literals;

enum class Family : uint8_t { kIpv4 = 4, kIpv6 = 6 };

// All sizes are those of whole IP datagrams, headers included, in bytes.
// IP and UDP headers; IP and ICMP echo headers are as long.
constexpr uint16_t header_bytes(Family f) { return f == Family::kIpv4 ? 20 + 8 : 40 + 8; }

// No path is narrower, or what says so isn't believed: the reassembly size that every IPv4 host
// takes (RFC 1122, section 3.3.2), and IPv6's least link MTU (RFC 8200, section 5).
constexpr uint16_t floor_of(Family f) { return f == Family::kIpv4 ? 576 : 1280; }

using Nonce = std::array<uint8_t, 16>;

// Network byte order; an IPv4 address stands in the first 4 bytes, the rest is 0.
struct Endpoint {
  Family family = Family::kIpv4;
  std::array<uint8_t, 16> address{};
  uint16_t port = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

}  // namespace fpmtud
