// SPDX-License-Identifier: BSD-3-Clause
// Has DPDK report an event of a port, as a driver does. The functions are drivers' own (ethdev_driver.h), which
// applications get no header for.
#pragma once
#include <rte_ethdev.h>

#include <string>

extern "C" {
struct rte_eth_dev;
rte_eth_dev* rte_eth_dev_allocated(const char* name);
int rte_eth_dev_callback_process(rte_eth_dev* dev, rte_eth_event_type event, void* returned);
}

namespace test {

// `device`: as DPDK names it, "net_null0". Calls back before it returns. False: there is no such port.
inline bool raise_event(const std::string& device, rte_eth_event_type event) {
  rte_eth_dev* dev = rte_eth_dev_allocated(device.c_str());
  if (dev == nullptr) return false;
  rte_eth_dev_callback_process(dev, event, nullptr);
  return true;
}

}  // namespace test
