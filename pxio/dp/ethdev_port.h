// SPDX-License-Identifier: BSD-3-Clause
// A DPDK port. What the driver can't do with a packet on its way out (chains, chains so long, what it
// refuses to cut) is done here; what it tells of packets on their way in is put right. Made by
// open_ethdev (pxio/ctl/ethdev_setup.h); worker threads.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pxio/dp/buffers.h"
#include "pxio/dp/fd.h"
#include "pxio/dp/port.h"

namespace pxio {

class FlowRules;    // pxio/ctl/flow_rules.h
class EthdevStart;  // pxio/ctl/ethdev_setup.cc

class EthdevPort final : public Port {
 public:
  // How what the driver says of a received packet is to be taken.
  struct Receive {
    bool keeps_segment_size = true;  // tso_segsz of merged packets is right
    bool merged_by_length = false;   // merged packets bear no flag
    bool none_is_partial = false;    // checksum "none": left to hardware by its sender
    bool bad_behind_other_headers = false;  // "bad" means nothing but for TCP right behind one tag and IP
  };
  struct Settings {
    std::string name;           // as the operator knows it
    std::string driver;
    uint16_t id = 0;            // DPDK's
    uint16_t queues = 1;
    uint32_t max_frame = 0;     // longest one that may be sent, or received unmerged
    uint16_t max_segs = 1;      // buffers in a packet that the driver takes
    Receive receive;
    Segmenting tso;
    bool ip_checksum = false;   // TSO makes that of IPv4 headers
    bool remove = false;        // the device was attached for this port
    Buffers buffers;
    std::vector<std::string> warnings;
    std::vector<OffloadState> offloads;
    std::vector<OffloadState> flow_rules;
    std::shared_ptr<FlowRules> rules;  // null: none were asked for
    std::shared_ptr<const EthdevStart> start;  // what it was started with
    std::vector<Fd> interrupts;  // epoll instances, one a queue; none: only polling tells
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
  Segmenting can_segment() const noexcept override { return s_.tso; }
  void idle(uint16_t queue) noexcept override;
  int wait_fd(uint16_t queue) const noexcept override;
  void arm(uint16_t queue) noexcept override;
  void disarm(uint16_t queue) noexcept override;
  PortStats stats() override;
  uint16_t queues() const noexcept override { return s_.queues; }
  TxProgress tx_progress(uint16_t queue) const noexcept override;
  std::string driver() const override { return s_.driver; }
  std::vector<OffloadState> offloads() const override { return s_.offloads; }
  std::vector<OffloadState> flow_rules() const override { return s_.flow_rules; }
  Health health() const noexcept override { return health_.load(std::memory_order_relaxed); }
  void restart() override;

  uint16_t id() const { return s_.id; }
  // What an operator should know of the driver's limits, a line each.
  const std::vector<std::string>& warnings() const { return s_.warnings; }

 private:
  using Count = std::atomic<uint64_t>;
  struct alignas(64) Queue {  // written by the worker, read by the control thread
    Count tx_too_big{0}, tx_errors{0}, tx_resplit{0}, tx_taken{0}, tx_refused{0};
  };
  void correct(rte_mbuf& m) const noexcept;
  bool sendable(rte_mbuf& m) const noexcept;
  // The packet as the driver can send it, or null: it has been dropped.
  rte_mbuf* fit(uint16_t queue, rte_mbuf* m) noexcept;
  // These consume what the driver refused to prepare.
  bool send_as_merged(uint16_t queue, rte_mbuf& m) noexcept;
  void send_refused(uint16_t queue, rte_mbuf* m) noexcept;
  void send_resplit(uint16_t queue, rte_mbuf* m) noexcept;
  void send_now(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept;

  void forget_interrupts() noexcept;

  Settings s_;
  std::unique_ptr<Queue[]> queues_;
  std::atomic<Health> health_{Health::kGood};  // written by DPDK's interrupt thread, too
};

}  // namespace pxio
