// SPDX-License-Identifier: BSD-3-Clause
// What the operator wants, as the data path reads it: immutable once published. Control thread makes
// it, workers read it.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "pxio/dp/packet_view.h"
#include "pxio/dp/units.h"

namespace pxgw {

struct Prefix {
  uint8_t version = 4;              // 4 or 6
  uint8_t bits = 0;                 // 0 ... 32 or 128
  std::array<uint8_t, 16> addr{};   // network order; IPv4 in the first four bytes
  bool contains(const uint8_t* a) const {
    const unsigned whole = bits / 8, rest = bits % 8;
    for (unsigned i = 0; i < whole; ++i)
      if (a[i] != addr[i]) return false;
    return rest == 0 || ((a[whole] ^ addr[whole]) & (0xff00u >> rest) & 0xff) == 0;
  }
  bool operator==(const Prefix&) const = default;
};

// Whether an address, in network order, is in one of them.
inline bool listed(const std::vector<Prefix>& list, const uint8_t* addr, uint32_t version) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Prefix& p) { return p.version == version && p.contains(addr); });
}

// How the two directions are told apart.
enum class Sides : uint8_t {
  kByPort,    // live: by the port a packet came in on
  kByPrefix,  // captures: by the inside prefixes
};

// Path MTUs measured by the gateway itself, and for others.
struct PathProbing {
  bool probe = false;
  uint16_t port = 7474;                // of responders, and of the gateway as one
  uint32_t elephant_bytes = 1u << 20;  // after so many, either way, the path of a flow is probed
  pxio::Nanos retry = std::chrono::seconds(300);  // for destinations that don't answer
  std::vector<Prefix> answer;  // inside hosts for which the gateway answers probes
};

// Bundles of UDP datagrams towards inside hosts that take them.
struct Caravans {
  enum class Mode : uint8_t { kOff, kObserve, kOn };
  Mode mode = Mode::kOff;
  bool hello = true;        // hosts may register themselves
  uint16_t port = 7475;
  pxio::Nanos spacing{0};   // between datagrams of one caravan from inside, on their way out
  std::vector<uint16_t> tunnels;  // ports that are never bundled
  bool reassemble = false;  // fragmented datagrams become whole for hosts that take caravans
};

struct Policy {
  uint16_t inside_mtu = 9000;   // IP packet sizes
  uint16_t outside_mtu = 1500;  // of the port
  // What a path outside is taken to carry of which nothing is known.
  uint16_t assumed_mtu = UINT16_MAX;
  uint16_t assumed_path() const { return std::min(assumed_mtu, outside_mtu); }
  pxio::Nanos hold_limit = std::chrono::microseconds(50);  // 0: nothing is held beyond its burst
  Sides sides = Sides::kByPort;
  pxio::Link link = pxio::Link::kEthernet;
  // Inside prefixes. kByPrefix: must not be empty. kByPort: if not empty, only flows whose inside
  // address is in one of them are translated.
  std::vector<Prefix> include;
  std::vector<Prefix> exclude;  // never translated: either address
  // Inside prefixes whose hosts take jumbos though their handshake wasn't seen; the flow is learnt from
  // the first segment that the inside host sends.
  std::vector<Prefix> jumbo;
  // What inside hosts are taken to have advertised, whatever their SYNs say, and every flow counts as
  // seen: the what-if of `translate --inside-mss`.
  std::optional<uint16_t> assume_inside_mss;
  // Largest IP packet sent outside when a jumbo of a flow that isn't known has to be split. 1280 passes
  // everywhere (RFC 8200, section 5).
  uint16_t safe_mtu = 1280;
  uint16_t max_split_segs = 136;  // 64 KB at MSS 536 less 40 B of options are 133
  uint16_t max_merge_segs = 64;   // buffers chained in one packet at most; ports may take fewer
  // In the first `merge_early_packets` merged packets of a flow, segments at most; see pxio::Merger.
  uint8_t merge_early_segs = 0, merge_early_packets = 0;
  // Source of the too-big errors; where none is set, the destination of the packet that was too big.
  std::optional<std::array<uint8_t, 4>> icmp_from4;
  std::optional<std::array<uint8_t, 16>> icmp_from6;
  uint32_t icmp_per_second = 100;
  Caravans caravans;
  pxio::Nanos flow_timeout = std::chrono::seconds(600);
  pxio::Nanos pmtu_timeout = std::chrono::seconds(600);  // RFC 1191, section 6.3
  PathProbing probing;
};

}  // namespace pxgw
