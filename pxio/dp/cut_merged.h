// SPDX-License-Identifier: BSD-3-Clause
// TCP segments that a port merged and that aren't the gateway's to split: inside a tunnel that only passes through,
// which the kernel merges but doesn't take apart again, or behind extension headers. Worker threads.
#pragma once
#include <rte_mbuf.h>

#include <cstdint>

#include "pxio/dp/buffers.h"

namespace pxio {

// Cuts `m`, whose innermost TCP header begins at `tcp_at`, into the packets that it was merged from, of `size` bytes
// of payload each (the last of what is left): lengths, IPv4 IDs, sequence numbers, flags and all checksums are made
// anew, so that the old ones must be known to have held. Tunnels: IP in IP, GRE, also with Ethernet in it, VXLAN and Geneve, in any order. Writes at most `most`
// packets to `out`; `m` stays the caller's. Returns how many there are; 0: more than that, another kind of tunnel,
// headers that don't agree, or no buffers.
uint16_t cut_merged(const rte_mbuf& m, uint32_t tcp_at, uint16_t size, const Buffers& buffers, rte_mbuf** out,
                       uint16_t most) noexcept;

}  // namespace pxio
