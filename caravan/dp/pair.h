// SPDX-License-Identifier: BSD-3-Clause
// Pairs of addresses, as they lie in an IP header. Any thread.
#pragma once
#include "caravan/core/format.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"

namespace caravan {

struct Pair {
  std::array<uint64_t, 4> words{};  // source, then destination; IPv4: words[0] alone
  friend bool operator==(const Pair&, const Pair&) = default;
};

inline Pair pair_of(const uint8_t* ip, bool v6) noexcept {
  Pair p;
  if (v6) {
    std::memcpy(p.words.data(), ip + 8, 32);
  } else {
    p.words[0] = pxio::load<uint64_t>(ip + 12);
  }
  return p;
}

// Keyed, so that strangers can't choose pairs that displace each other.
inline uint64_t hash_of(const Pair& p, uint64_t secret) noexcept {
  uint64_t h = secret;
  for (const uint64_t w : p.words) h = (h ^ w ^ h >> 29) * 0x9e3779b97f4a7c15ull;
  return h ^ h >> 32;
}

inline Address destination_of(const uint8_t* ip, bool v6) noexcept {
  Address a{v6 ? Family::kIpv6 : Family::kIpv4, {}};
  std::memcpy(a.bytes.data(), ip + (v6 ? 24 : 16), v6 ? 16 : 4);
  return a;
}
inline Address source_of(const uint8_t* ip, bool v6) noexcept {
  Address a{v6 ? Family::kIpv6 : Family::kIpv4, {}};
  std::memcpy(a.bytes.data(), ip + (v6 ? 8 : 12), v6 ? 16 : 4);
  return a;
}

// One sender and one receiver: no multicast, no broadcast, no unspecified source.
inline bool unicast(const uint8_t* ip, bool v6) noexcept {
  if (v6)
    return ip[8] != 0xff && ip[24] != 0xff &&
           (pxio::load<uint64_t>(ip + 8) != 0 || pxio::load<uint64_t>(ip + 16) != 0);
  return ip[12] < 224 && ip[16] < 224 && ip[12] != 0;
}

}  // namespace caravan
