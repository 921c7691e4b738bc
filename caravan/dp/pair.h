// SPDX-License-Identifier: BSD-3-Clause
// Pairs of addresses, as they lie in an IP header. Any thread.
#pragma once
#include "caravan/core/format.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"

namespace caravan {

struct Pair {
  std::array<uint64_t, 4> words{};  // source, then destination; IPv4: words[0] alone
  friend bool operator==(const Pair& a, const Pair& b) noexcept {
    return ((a.words[0] ^ b.words[0]) | (a.words[1] ^ b.words[1]) | (a.words[2] ^ b.words[2]) |
            (a.words[3] ^ b.words[3])) == 0;
  }
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
inline uint64_t hash_of(const Pair& p, bool v6, uint64_t secret) noexcept {
  constexpr uint64_t kSpread = 0x9e3779b97f4a7c15ull;
  uint64_t h = (secret ^ p.words[0] ^ secret >> 29) * kSpread;
  if (v6)
    for (size_t i = 1; i < p.words.size(); ++i) h = (h ^ p.words[i] ^ h >> 29) * kSpread;
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
