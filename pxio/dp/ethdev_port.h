// SPDX-License-Identifier: BSD-3-Clause
// A DPDK port. What the driver can't do with a packet on its way out (chains, chains so long) is done
// here. Made by open_ethdev (pxio/ctl/ethdev_setup.h); worker threads.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pxio/dp/buffers.h"
#include "pxio/dp/port.h"

namespace pxio {

class EthdevPort final : public Port {
 public:
  struct Settings {
    std::string name;           // as the operator knows it
    uint16_t id = 0;            // DPDK's
    uint16_t queues = 1;
    uint32_t max_frame = 0;     // longest one that may be sent
    uint16_t max_segs = 1;      // buffers in a packet that the driver takes
    bool checks = false;        // it looks at checksums
    bool remove = false;        // the device was attached for this port
    Buffers buffers;
    std::vector<std::string> warnings;
  };

  explicit EthdevPort(Settings settings);
  // Stops the port and gives its buffers back. Control thread; no worker uses it any more.
  ~EthdevPort() override;
  EthdevPort(const EthdevPort&) = delete;
  EthdevPort& operator=(const EthdevPort&) = delete;

  uint16_t rx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept override;
  uint16_t tx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept override;
  // Where chains have to be copied any number is as good as another.
  uint16_t max_tx_segs() const noexcept override {
    return s_.max_segs > 1 ? s_.max_segs : UINT16_MAX;
  }
  PortStats stats() override;

  uint16_t id() const { return s_.id; }
  // What an operator should know of the driver's limits, a line each.
  const std::vector<std::string>& warnings() const { return s_.warnings; }

 private:
  struct alignas(64) Queue {  // written by the worker, read by the control thread
    std::atomic<uint64_t> tx_too_big{0}, tx_errors{0};
  };
  // The packet as the driver can send it, or null: it has been dropped.
  rte_mbuf* fit(Queue& q, rte_mbuf* m) noexcept;

  Settings s_;
  std::unique_ptr<Queue[]> queues_;
};

}  // namespace pxio
