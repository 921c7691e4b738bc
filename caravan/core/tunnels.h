// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <array>
#include <cstdint>

namespace caravan {

// Ports whose payload is packets itself, or hides where one ends: never bundled, from or to them.
// IKE and ESP in UDP (RFC 3948), L2TP (RFC 2661), GTP-U (3GPP TS 29.281), AMT (RFC 7450), Teredo
// (RFC 4380), LISP (RFC 9300), GRE in UDP (RFC 8086), VXLAN (RFC 7348; 8472: Linux's default),
// VXLAN-GPE, CAPWAP (RFC 5415), GUE, Geneve (RFC 8926), MPLS in UDP (RFC 7510), OpenVPN, WireGuard
// (ports as registered with IANA, or named in their documentation).
inline constexpr std::array<uint16_t, 18> kTunnelPorts = {500,  1194, 1701, 2152, 2268, 3544,
                                                          4341, 4500, 4754, 4789, 4790, 5246,
                                                          5247, 6080, 6081, 6635, 8472, 51820};

}  // namespace caravan
