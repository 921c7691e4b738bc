// SPDX-License-Identifier: BSD-3-Clause
// How a DPDK port is set up: decided from what it says of itself (rte_eth_dev_info) and the quirks of
// its driver, before anything is touched. Main thread.
#pragma once
#include <rte_ethdev.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pxio/ctl/driver_quirks.h"
#include "pxio/dp/ethdev_port.h"

namespace pxio {

// Which abilities may be used. All are where the port has them.
struct OffloadWishes {
  bool lro = true, tso = true, checksum = true, scatter = true, multi_segment = true, rss = true,
       flow_rules = true;
  bool operator==(const OffloadWishes&) const = default;
};

struct EthdevRequest {
  const rte_eth_dev_info& info;
  const DriverQuirks& quirks;
  uint16_t queues = 1;            // wanted, one a worker
  uint16_t mtu = 1500;
  uint16_t merge_mtu = 0;         // largest IP packet that LRO may make; 0: no LRO wanted here
  uint32_t small_room = 0;        // bytes of a packet that a buffer of either pool holds
  uint32_t large_room = 0;
  OffloadWishes use;
};

struct EthdevPlan {
  rte_eth_conf conf{};
  // As many as wanted, where RSS brings both directions of a flow to the same one; else one, to fan out.
  uint16_t queues = 1;
  bool large_buffers = false;     // receive into the large ones
  uint16_t max_segs = 1;          // buffers of a packet without TSO
  EthdevPort::Receive receive;
  Segmenting tso;
  bool ip_checksum = false;       // TSO makes that of IPv4 headers
  std::vector<OffloadState> offloads;
  std::vector<std::string> warnings;
};

// Throws std::runtime_error where the frames can't be received: what is needed, what there is, the fix.
EthdevPlan plan_ethdev(const EthdevRequest& request);

}  // namespace pxio
