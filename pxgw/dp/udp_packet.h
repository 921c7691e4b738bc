// SPDX-License-Identifier: BSD-3-Clause
// UDP datagrams that the gateway itself sends, between hosts on either side of it. Any thread.
#pragma once
#include <cstdint>
#include <span>

#include "pxgw/dp/path_key.h"

namespace pxgw {

struct UdpEnds {
  PathKey from, to;  // of one version
  uint16_t from_port = 0, to_port = 0;
};

enum class Fragmentable : uint8_t { kNo, kYes };

// Bytes of IP and UDP header.
constexpr size_t udp_headers(uint32_t version) { return version == 4 ? 28 : 48; }

// Writes link-layer, IP and UDP header to the front of `frame`, which ends with the payload; checksums are
// made. `id`: of IPv4; fragments are told apart by it. IPv6 is never fragmentable on its way.
void write_udp_headers(std::span<uint8_t> frame, std::span<const uint8_t> l2, const UdpEnds& ends,
                       Fragmentable fragmentable, uint16_t id) noexcept;

}  // namespace pxgw
