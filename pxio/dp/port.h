// SPDX-License-Identifier: BSD-3-Clause
// What a worker sees of a port: two calls a burst. Implementations: EthdevPort (DPDK), KernelPort
// (AF_PACKET), and files or vectors in the tools and tests.
#pragma once
#include <rte_mbuf.h>

#include <cstdint>

namespace pxio {

// A packet that arrived merged by the NIC or kernel carries RTE_MBUF_F_RX_LRO and, where the port
// knows it, the size of its segments in tso_segsz (0: unknown). TCP and UDP checksums in the packet
// are always complete; RTE_MBUF_F_RX_L4_CKSUM_BAD/GOOD tell what the port knows of them.
class Port {
 public:
  virtual ~Port() = default;
  // Up to n packets received on `queue`, owned by the caller from now on.
  virtual uint16_t rx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept = 0;
  // Sends pkts[0..n); takes ownership of the first `return value` of them, whether they were sent or
  // had to be dropped under the port's own counter; the others couldn't be taken now.
  virtual uint16_t tx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept = 0;
};

}  // namespace pxio
