// SPDX-License-Identifier: BSD-3-Clause
#include "bench/scale.h"

#include <rte_cycles.h>
#include <rte_pause.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/buffers.h"
#include "bench/engine.h"
#include "bench/traffic.h"
#include "pxio/ctl/eal.h"

namespace bench {
namespace {

constexpr uint32_t kShare = 448;  // packets of a worker at a time: both shares fit a lane's ring, however flows fall
constexpr uint64_t kCycleBytes = 256u << 20;
constexpr uint16_t kRoom = 2048;

// A second core that is ready before the work begins.
class Partner {
 public:
  explicit Partner(int cpu) : thread_([this, cpu] { run(cpu); }) {}
  ~Partner() {
    begin(nullptr);
    thread_.join();
  }
  void begin(const std::function<void()>* work) {
    work_ = work;
    given_.fetch_add(1, std::memory_order_release);
  }
  void wait() const {
    while (done_.load(std::memory_order_acquire) != given_.load(std::memory_order_relaxed)) rte_pause();
  }

 private:
  void run(int cpu) {
    pin_to(cpu);
    for (uint32_t seen = 1;; ++seen) {
      while (given_.load(std::memory_order_acquire) != seen) rte_pause();
      if (work_ == nullptr) return;
      (*work_)();
      done_.store(seen, std::memory_order_release);
    }
  }

  const std::function<void()>* work_ = nullptr;
  std::atomic<uint32_t> given_{0}, done_{0};
  std::thread thread_;
};

struct Traffic {
  explicit Traffic(uint32_t flows) : frames(flows, Shape{4, true}), arrivals(runs(flows, 1)) {}
  void next(rte_mbuf& m) {
    const Arrival a = arrivals->next();
    frames.data(a.flow, pxio::Direction::kInbound, frames.full_payload(), a.push, m);
  }
  Frames frames;
  std::unique_ptr<Arrivals> arrivals;
};

// An engine with traffic of its own.
struct Team {
  Team(uint32_t flows, uint16_t workers, Wires& wires, pxio::Buffers buffers)
      : traffic(flows), engine(options(flows, workers), wires, buffers) {
    engine.open_flows(traffic.frames, buffers.small);
  }
  static EngineOptions options(uint32_t flows, uint16_t workers) {
    EngineOptions e;
    e.flows = flows;
    e.workers = workers;
    return e;
  }
  Traffic traffic;
  Engine engine;
};

struct Spent {
  uint64_t cycles = 0, packets = 0;
  double each() const { return static_cast<double>(cycles) / static_cast<double>(packets); }
};
using Pair = std::array<Spent, 2>;
double each(const Pair& p) { return (p[0].each() + p[1].each()) / 2; }

class Bench {
 public:
  explicit Bench(const ScaleOptions& o)
      : o_(o), pool_("scale", std::max<uint32_t>(kCycleBytes / (kRoom + 256), 3 * 7 * o.flows + 8 * kShare), kRoom),
        pools_(1024, 1024), one_{Team(o.flows, 1, wires_, pools_.buffers()), Team(o.flows, 1, wires_, pools_.buffers())}, two_(o.flows, 2, wires_, pools_.buffers()),
        fanned_traffic_(o.flows), fan_out_(2, wires_), partner_(o.cpus[1]) {
    pin_to(o.cpus[0]);
  }

  Scale run() {
    round(o_.flows * 8);  // until as many packets are held as ever will be
    Scale s;
    for (uint32_t r = 0; r < o_.rounds; ++r) {
      single_ = alone_ = together_ = {};
      fanned_ = {};
      round(o_.packets);
      s.cycles["1 worker"].push_back(each(single_));
      s.cycles["alone"].push_back(each(alone_));
      s.cycles["together"].push_back(each(together_));
      s.cycles["fan-out"].push_back(fanned_.each());
      s.speed_up.push_back(each(single_) / together_[0].each() + each(single_) / together_[1].each());
    }
    if (two_.engine.lost() != 0) throw std::runtime_error("a worker's ring was too short for its share");
    return s;
  }

 private:
  void round(uint32_t packets) {
    for (uint32_t done = 0; done < packets; done += kShare) {
      for (const bool other : {false, true}) {
        feed(one_[other].traffic, kShare);
        chill();
        work(one_[other], {{0, other, &single_[other]}});
      }
      for (const bool together : {false, true}) {
        feed(two_.traffic, 2 * kShare);
        two_.engine.fan_out(2 * kShare / pxio::kBurst);
        chill();
        if (together) {
          work(two_, {{0, false, &together_[0]}, {1, true, &together_[1]}});
        } else {
          work(two_, {{0, false, &alone_[0]}});
          work(two_, {{1, true, &alone_[1]}});
        }
      }
      feed(fanned_traffic_, kShare);
      chill();
      time_fan_out();
    }
  }

  // As a port would bring them, which leaves everything in DRAM.
  void feed(Traffic& t, uint32_t n) {
    fed_.resize(n);
    pool_.get(fed_.data(), n);
    for (rte_mbuf* m : fed_) t.next(*m);
    rte_ring_sp_enqueue_bulk(wires_.from_outside.get(), reinterpret_cast<void**>(fed_.data()), n, nullptr);
  }
  void chill() const {
    for (const rte_mbuf* m : fed_) cool(*m, Lines::kAllCold, false);
    fence();
  }

  struct Part {
    uint16_t worker;
    bool on_partner;
    Spent* spent;
  };
  // Each has its ring worked off, all from the same moment on.
  void work(Team& t, const std::vector<Part>& parts) {
    std::atomic<size_t> ready{0};
    const auto job = [&](const Part& p) {
      const uint64_t had = t.engine.received(p.worker);
      ready.fetch_add(1, std::memory_order_acq_rel);
      while (ready.load(std::memory_order_acquire) != parts.size()) rte_pause();
      const uint64_t begin = rte_rdtsc_precise();
      while (t.engine.poll_worker(p.worker)) {
      }
      p.spent->cycles += rte_rdtsc_precise() - begin;
      p.spent->packets += t.engine.received(p.worker) - had;
    };
    const std::function<void()> far = [&] {
      for (const Part& p : parts)
        if (p.on_partner) job(p);
    };
    partner_.begin(&far);
    for (const Part& p : parts)
      if (!p.on_partner) job(p);
    partner_.wait();
    t.engine.gather();
    collect();
  }

  void time_fan_out() {
    bool any;
    do {
      const uint64_t begin = rte_rdtsc_precise();
      any = fan_out_.poll();
      fanned_.cycles += rte_rdtsc_precise() - begin;
      fan_out_.send_back();
    } while (any);
    fanned_.packets += fed_.size();
    collect();
  }

  void collect() {
    rte_mbuf* out[256];
    for (unsigned n; (n = rte_ring_sc_dequeue_burst(wires_.to_inside.get(), reinterpret_cast<void**>(out), 256, nullptr)) != 0 ||
                     (n = rte_ring_sc_dequeue_burst(wires_.to_outside.get(), reinterpret_cast<void**>(out), 256, nullptr)) != 0;)
      rte_pktmbuf_free_bulk(out, n);
  }

  ScaleOptions o_;
  Wires wires_{1u << 13};
  CyclingPool pool_;
  pxio::BufferPools pools_;
  std::array<Team, 2> one_;  // one for each core
  Team two_;
  Traffic fanned_traffic_;
  FanOutAlone fan_out_;
  Partner partner_;
  std::vector<rte_mbuf*> fed_;
  Pair single_, alone_, together_;
  Spent fanned_;
};

}  // namespace

Scale measure_scale(const ScaleOptions& options) { return Bench(options).run(); }

}  // namespace bench
