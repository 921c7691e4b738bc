// SPDX-License-Identifier: BSD-3-Clause
// A port that has fewer queues than there are workers, or whose queues don't bring both directions of a flow
// to the same one: one thread fans out what it receives by FlowHash over lockless rings, and sends what the
// workers put into theirs. To a worker it looks like a port with a queue of its own. Per flow and direction
// the order is kept: one ring each way.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pxio/dp/fd.h"
#include "pxio/dp/flow_hash.h"
#include "pxio/dp/port.h"
#include "pxio/dp/spsc_ring.h"
#include "pxio/dp/units.h"

namespace pxio {

class FanoutPort final : public Port {
 public:
  static constexpr uint32_t kSlots = 1024;  // of each ring; one fewer can be filled

  // Takes the port over. Throws std::bad_alloc, or std::runtime_error where no file descriptor is left.
  FanoutPort(std::unique_ptr<Port> port, uint16_t workers, const FlowHash& hash);
  // Frees what is in the rings. Control thread; no other uses it any more.
  ~FanoutPort() override;
  FanoutPort(const FanoutPort&) = delete;
  FanoutPort& operator=(const FanoutPort&) = delete;

  // The thread that fans out.
  // Receives and distributes a burst a queue, sends a burst a worker. Returns whether there was anything.
  bool pump() noexcept;
  // Sends what the workers have left behind, for as long as the port takes any.
  void drain() noexcept;
  bool pending() const noexcept;  // packets that the port didn't take
  // To sleep on these until there is something to do, which is looked for once more after arming.
  std::vector<int> pump_fds() const;
  void arm_pump() noexcept;
  void disarm_pump() noexcept;

  // Worker `queue`.
  uint16_t rx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept override;
  uint16_t tx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept override;
  int wait_fd(uint16_t queue) const noexcept override { return lanes_[queue]->event.fd.get(); }
  void arm(uint16_t queue) noexcept override { lanes_[queue]->event.arm(); }
  void disarm(uint16_t queue) noexcept override { lanes_[queue]->event.disarm(); }

  uint16_t max_tx_segs() const noexcept override { return port_->max_tx_segs(); }
  Segmenting can_segment() const noexcept override { return port_->can_segment(); }
  // Control thread.
  PortStats stats() override;  // what the rings had no room for is among rx_dropped
  uint16_t queues() const noexcept override { return n_; }
  TxProgress tx_progress(uint16_t queue) const noexcept override {
    return queue == 0 ? port_->tx_progress(0) : TxProgress{};
  }
  std::string driver() const override { return port_->driver(); }
  std::vector<OffloadState> offloads() const override;
  std::vector<OffloadState> flow_rules() const override { return port_->flow_rules(); }
  const Port& under() const noexcept { return *port_; }
  Health health() const noexcept override { return port_->health(); }
  void restart() override { port_->restart(); }  // nor does the thread that fans out use it

 private:
  // Wakes a thread that sleeps; free of system calls while none does.
  struct Event {
    Event();
    void arm() noexcept;
    void disarm() noexcept;
    void wake() noexcept;  // behind what the sleeper would look for
    Fd fd;
    std::atomic<bool> asleep{false};
  };
  struct alignas(64) Lane {  // of one worker
    SpscRing<rte_mbuf*> in{kSlots}, out{kSlots};
    Event event;
    // The fan-out thread's: taken from `out`, but not yet by the port.
    std::array<rte_mbuf*, kBurst> pending;
    uint16_t pending_n = 0;
    // Of the burst at hand.
    std::array<rte_mbuf*, kBurst> sorted;
    uint16_t sorted_n = 0;
  };
  bool receive(uint16_t queue) noexcept;
  bool send(Lane& lane) noexcept;

  std::unique_ptr<Port> port_;
  const uint16_t n_;
  const FlowHash hash_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Event pump_event_;
  uint32_t empty_pumps_ = 0;
  std::atomic<uint64_t> dropped_{0};  // written by the fan-out thread
};

}  // namespace pxio
