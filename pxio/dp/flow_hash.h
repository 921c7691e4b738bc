// SPDX-License-Identifier: BSD-3-Clause
// Which of several workers a packet is for: a hash that is the same for both directions of a flow, for its
// ICMP errors (by what they quote), and for all fragments between two addresses. Any thread.
#pragma once
#include <rte_mbuf.h>

#include <cstdint>

namespace pxio {

struct FlowHash {
  uint64_t secret = 0;  // so that strangers can't choose whose flows share a worker
  // UDP port (host byte order) whose datagrams go by their addresses alone, so that they meet the
  // fragments between these; 0: none.
  uint16_t by_address = 0;

  // Fragments bear no ports, so they, and every protocol without ports, go by addresses. What isn't IP
  // hashes to 0. VLAN tags don't count: they may differ by direction.
  uint32_t operator()(rte_mbuf& m) const noexcept;
};

// The share of `n` that a hash falls to, 0 ... n - 1.
inline uint16_t share_of(uint32_t hash, uint16_t n) { return static_cast<uint16_t>(uint64_t{hash} * n >> 32); }

}  // namespace pxio
