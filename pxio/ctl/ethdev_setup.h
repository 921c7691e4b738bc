// SPDX-License-Identifier: BSD-3-Clause
// Attaching and starting of DPDK ports. Main thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "pxio/ctl/ethdev_plan.h"
#include "pxio/dp/buffers.h"
#include "pxio/dp/ethdev_port.h"

namespace pxio {

struct EthdevOptions {
  std::string device;  // arguments of a virtual device ("net_ring0"), or a PCI address ("0000:01:00.0")
  // One a worker; the port is opened with one for all where its own sharing doesn't bring both directions
  // of a flow to the same queue: see EthdevPort::queues().
  uint16_t queues = 1;
  uint16_t mtu = 1500;
  Buffers buffers;
  uint16_t descriptors = 1024;  // of each ring; less where the driver has fewer
  uint16_t merge_mtu = 0;       // largest IP packet that the NIC may merge to; 0: it isn't to merge
  OffloadWishes use;
  uint16_t probe_port = 0;      // UDP, to be steered to one queue; 0: none
  bool interrupts = false;      // of receive queues, for threads that sleep
};

// Throws std::runtime_error with one line that names the port, what it needs, what there is and the fix.
std::unique_ptr<EthdevPort> open_ethdev(const EthdevOptions& options);

}  // namespace pxio
