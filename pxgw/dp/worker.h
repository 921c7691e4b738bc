// SPDX-License-Identifier: BSD-3-Clause
// One worker: queue k of both ports of every pair, run to completion. Nothing is shared with other
// workers; with the control thread only what stands under "worker and control" below, and the mailbox.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "pxgw/dp/counters.h"
#include "pxgw/dp/gateway.h"
#include "pxgw/dp/mailbox.h"
#include "pxgw/dp/policy.h"
#include "pxio/dp/buffers.h"
#include "pxio/dp/polled.h"
#include "pxio/dp/port.h"
#include "pxio/dp/tx_buffer.h"
#include "pxio/dp/units.h"

namespace pxgw {

struct PairPorts {
  pxio::Port* outside = nullptr;
  pxio::Port* inside = nullptr;
};

// One policy a pair, immutable once published.
struct PolicySet {
  uint64_t generation = 0;
  std::vector<Policy> pairs;
};

// Counters as the worker last copied them out. A copy is whole: it is read again if it changed
// midway.
class PublishedCounters {
 public:
  void store(const Counters& c) noexcept;  // by one thread
  Counters load() const noexcept;          // by any thread

 private:
  static constexpr size_t kWords = sizeof(Counters) / sizeof(uint64_t);
  std::atomic<uint64_t> version_{0};  // odd while a copy is being written
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

class alignas(64) Worker final : public pxio::Polled {
 public:
  // Ports, policies and pools outlive the worker. Throws std::bad_alloc where memory is short.
  Worker(uint16_t queue, const std::vector<PairPorts>& pairs, const PolicySet& policies,
         const Capacity& capacity, pxio::Buffers buffers);

  // Gives each pair's gateway a stage of its own. Before the first poll.
  using PairStage = std::function<StageMaker(Mailbox& box, uint8_t pair)>;
  void add_stage(const PairStage& make);

  // Worker thread.
  // The whole path.
  bool poll_once(pxio::Nanos now) noexcept override;
  std::optional<pxio::Nanos> next_deadline() const noexcept override;
  std::vector<int> wait_fds() const override;
  void before_sleep() noexcept override;
  void after_sleep(pxio::Nanos now) noexcept override;
  // Ages tables, takes over a new policy, copies counters out. poll_once calls it every
  // millisecond.
  void housekeeping(pxio::Nanos now) noexcept;
  // Copies the counters out.
  void publish() noexcept;
  // Sends all that is held and copies the counters out for the last time.
  void drain(pxio::Nanos now) noexcept override;

  // Worker and control: atomics alone.
  // Asks for another policy; the old one may be freed once generation() has come to the new one's.
  void use(const PolicySet& policies) noexcept {
    wanted_.store(&policies, std::memory_order_release);
  }
  uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
  Counters counters() const noexcept { return published_.load(); }
  struct Load {
    uint64_t polls, polls_with_packets, busy_ns;
  };
  Load load() const noexcept;

  uint16_t queue() const noexcept { return queue_; }
  // Control: its side of it. Wakes nobody.
  Mailbox& mailbox() noexcept { return mailbox_; }

 private:
  // A burst that is received while the one before it is worked on, so that its memory can be fetched
  // meanwhile. Only behind a full burst: where there is less to do nothing waits.
  struct Ahead {
    std::array<rte_mbuf*, pxio::kBurst> pkts;
    uint16_t n = 0;
  };
  struct Lane {  // one pair, as this worker serves it
    Lane(const PairPorts& ports, uint16_t queue, const Policy& policy, const Capacity& capacity,
         pxio::Buffers buffers);
    PairPorts ports;
    pxio::TxBuffer to_inside, to_outside;
    Gateway gateway;
    Ahead ahead[2];  // by direction
  };
  bool receive(Lane& lane, pxio::Port& port, pxio::Direction direction, pxio::Nanos now) noexcept;

  void take_commands(pxio::Nanos now, uint32_t most) noexcept;

  static constexpr pxio::Nanos kHousekeeping = std::chrono::milliseconds(1);
  static constexpr uint32_t kCommandsPerPoll = 8;

  const uint16_t queue_;
  Mailbox mailbox_;
  std::deque<Lane> lanes_;  // a lane doesn't move: the gateway refers to its TxBuffers
  const PolicySet* policies_;
  pxio::Nanos next_housekeeping_{0};
  pxio::Nanos last_poll_{0};
  bool had_packets_ = false;
  uint64_t polls_ = 0, polls_with_packets_ = 0, busy_ns_ = 0;
  uint64_t busy_polls_ = 0;  // polls_with_packets_ at the last housekeeping

  // Written by control, read by the worker.
  alignas(64) std::atomic<const PolicySet*> wanted_;
  // Written by the worker, read by control.
  alignas(64) std::atomic<uint64_t> generation_;
  std::atomic<uint64_t> published_polls_{0}, published_with_packets_{0}, published_busy_ns_{0};
  PublishedCounters published_;
};

// Adds each counter of `more`, the state fields included.
void add(Counters& to, const Counters& more) noexcept;

}  // namespace pxgw
