// SPDX-License-Identifier: BSD-3-Clause
// What is measured: something that takes packets from rings and puts packets into rings.
#pragma once
#include <rte_ring.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/frames.h"
#include "pxgw/dp/caravan_stage.h"
#include "pxgw/dp/worker.h"
#include "pxio/dp/fanout_port.h"

namespace bench {

struct RingFree {
  void operator()(rte_ring* r) const { rte_ring_free(r); }
};
using Ring = std::unique_ptr<rte_ring, RingFree>;
// Throws std::runtime_error where memory is short. `size` is a power of two.
Ring make_ring(const std::string& name, uint32_t size);

// The rings around a subject: what comes in on either port, and what leaves on it.
struct Wires {
  explicit Wires(uint32_t size);
  Ring from_outside, from_inside, to_outside, to_inside;
};

class Subject {
 public:
  virtual ~Subject() = default;
  // One burst of each ring, if there is one. Whether there was.
  virtual bool poll() noexcept = 0;
  // What it still holds leaves.
  virtual void drain() noexcept = 0;
};

// A port whose wire is two rings.
class RingPort final : public pxio::Port {
 public:
  // `segmenting`: what it says that it cuts; the ring takes it as it is.
  RingPort(rte_ring* in, rte_ring* out, pxio::Segmenting segmenting = {}) : in_(in), out_(out), segmenting_(segmenting) {}
  pxio::Segmenting can_segment() const noexcept override { return segmenting_; }
  uint16_t rx_burst(uint16_t, rte_mbuf** pkts, uint16_t n) noexcept override {
    return static_cast<uint16_t>(rte_ring_sc_dequeue_burst(in_, reinterpret_cast<void**>(pkts), n, nullptr));
  }
  uint16_t tx_burst(uint16_t, rte_mbuf** pkts, uint16_t n) noexcept override {
    return static_cast<uint16_t>(rte_ring_sp_enqueue_burst(out_, reinterpret_cast<void**>(pkts), n, nullptr));
  }
  // The wire's ends.
  void inject(rte_mbuf* m) noexcept { rte_ring_sp_enqueue(in_, m); }
  uint16_t collect(rte_mbuf** pkts, uint16_t n) noexcept {
    return static_cast<uint16_t>(rte_ring_sc_dequeue_burst(out_, reinterpret_cast<void**>(pkts), n, nullptr));
  }

 private:
  rte_ring* in_;
  rte_ring* out_;
  pxio::Segmenting segmenting_;
};

struct EngineOptions {
  uint32_t flows = 1024;
  uint16_t workers = 1;
  bool caravans = false;  // all inside hosts take them
  int version = 4;        // of their addresses
  bool tso = false;       // of the port outside
  pxio::Nanos hold = std::chrono::seconds(1);
  pxio::Nanos poll_takes = std::chrono::microseconds(1);  // by which its clock goes on with each poll
};

// The gateway's worker as it ships; or several behind a fan-out.
class Engine final : public Subject {
 public:
  Engine(const EngineOptions& options, Wires& wires, pxio::Buffers buffers);
  // Opens all flows of `frames` by handshakes, whose packets come from `pool` and go back to it.
  void open_flows(const Frames& frames, rte_mempool* pool);
  bool poll() noexcept override {
    bool any = false;
    for (uint16_t i = 0; i < workers_.size(); ++i) any |= poll_worker(i);
    return any;
  }
  // On a thread of its own, if need be: workers share nothing.
  bool poll_worker(uint16_t i) noexcept { return workers_[i]->poll_once(times_[i].now += options_.poll_takes); }
  void poll_at(pxio::Nanos now) noexcept { workers_[0]->poll_once(times_[0].now = now); }
  void drain() noexcept override;
  // What lies in the ports' rings goes to the workers, so many bursts of it; and what they send to the ports.
  void fan_out(uint32_t bursts) noexcept;
  void gather() noexcept;
  uint64_t lost() const;  // packets that the workers' rings had no room for
  pxgw::Counters counters();
  uint64_t received(uint16_t worker);  // packets from outside

 private:
  EngineOptions options_;
  std::unique_ptr<pxio::Port> outside_, inside_;
  RingPort* wire_outside_;
  RingPort* wire_inside_;
  std::vector<pxio::FanoutPort*> fanned_;  // both, if any
  pxgw::CaravanHosts hosts_;
  pxgw::PolicySet policies_;
  std::vector<std::unique_ptr<pxgw::Worker>> workers_;
  struct alignas(64) Time {
    pxio::Nanos now{std::chrono::seconds(1)};
  };
  std::vector<Time> times_;  // of each worker
};

// What the fan-out costs: from a port to the workers' rings, and from theirs to the port.
class FanOutAlone final : public Subject {
 public:
  FanOutAlone(uint16_t workers, Wires& wires);
  bool poll() noexcept override { return port_.pump(); }
  void send_back() noexcept;  // as workers, what they got
  void drain() noexcept override;

 private:
  uint16_t workers_;
  pxio::FanoutPort port_;
};

}  // namespace bench
