// SPDX-License-Identifier: BSD-3-Clause
#include "bench/simulate.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/buffers.h"
#include "bench/engine.h"
#include "bench/traffic.h"
#include "pxio/ctl/eal.h"
#include "pxio/dp/pkt.h"

namespace bench {
namespace {

constexpr uint32_t kBurst = 32;
constexpr double kEmptyPollNs = 40;

class Simulation {
 public:
  explicit Simulation(const LoadOptions& o)
      : o_(o), pool_("simulated", o.flows * 8 + 65536, 2048), pools_(4096, 1024), wires_(1u << 14),
        frames_(o.flows, Shape{}) {
    EngineOptions e;
    e.flows = o.flows;
    e.hold = o.hold;
    engine_ = std::make_unique<Engine>(e, wires_, pools_.buffers());
    engine_->open_flows(frames_, pool_.pool());
    if (o.lone) {
      arrivals_ = runs(o.flows, 1);
    } else {
      MixOptions m;
      m.flows = o.flows;
      m.pkts_per_s = o.pkts_per_s;
      m.seed = o.seed;
      m.gbps = o.gbps;
      m.line_gbps = o.line_gbps;
      arrivals_ = mix(m);
    }
  }

  Load run();

 private:
  Arrival next() {
    Arrival a = arrivals_->next();
    if (o_.lone) a.at_ps = static_cast<uint64_t>(1e12 / o_.pkts_per_s * ++lone_);
    return a;
  }
  // Offers what has come by `now`; returns how much.
  uint32_t arrive(double now_ns);
  void leave(double now_ns);

  LoadOptions o_;
  CyclingPool pool_;
  pxio::BufferPools pools_;
  Wires wires_;
  Frames frames_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Arrivals> arrivals_;
  Arrival pending_;
  double lone_ = 0;
  uint32_t offered_ = 0;
  std::vector<float> delays_;
  uint64_t packets_out_ = 0, bytes_out_ = 0;
};

uint32_t Simulation::arrive(double now_ns) {
  rte_mbuf* pkts[kBurst];
  uint32_t n = 0;
  while (n < kBurst && offered_ < o_.packets && static_cast<double>(pending_.at_ps) <= now_ns * 1000) {
    pool_.get(&pkts[n], 1);
    frames_.data(pending_.flow, pxio::Direction::kInbound, frames_.full_payload(), pending_.push, *pkts[n]);
    // Each buffer's payload begins with the time at which it came.
    std::memcpy(pxio::data(*pkts[n]) + frames_.header_len(), &pending_.at_ps, sizeof pending_.at_ps);
    ++n;
    ++offered_;
    pending_ = next();
  }
  rte_ring_sp_enqueue_bulk(wires_.from_outside.get(), reinterpret_cast<void**>(pkts), n, nullptr);
  return n;
}

void Simulation::leave(double now_ns) {
  rte_mbuf* out[256];
  for (unsigned n; (n = rte_ring_sc_dequeue_burst(wires_.to_inside.get(), reinterpret_cast<void**>(out), 256, nullptr)) != 0;) {
    for (unsigned i = 0; i < n; ++i) {
      ++packets_out_;
      bytes_out_ += out[i]->pkt_len - 14;
      for (const rte_mbuf* m = out[i]; m != nullptr; m = m->next) {
        uint64_t at_ps;
        std::memcpy(&at_ps, pxio::data(*m) + (m == out[i] ? frames_.header_len() : 0), sizeof at_ps);
        delays_.push_back(static_cast<float>(now_ns - static_cast<double>(at_ps) / 1000));
      }
    }
    rte_pktmbuf_free_bulk(out, n);
  }
}

Load Simulation::run() {
  constexpr pxio::Nanos kStart = std::chrono::seconds(10);
  delays_.reserve(o_.packets);
  pending_ = next();
  // The first tenth finds flows that aren't known as bulk transfer yet.
  pxgw::Counters before = engine_->counters();
  double now = 0;
  bool warm = false;
  while (offered_ < o_.packets) {
    const uint32_t n = arrive(now);
    engine_->poll_at(kStart + pxio::Nanos(static_cast<int64_t>(now)));
    now += std::max(kEmptyPollNs, n * o_.ns_per_packet);
    leave(now);
    if (!warm && offered_ > o_.packets / 10) {
      warm = true;
      before = engine_->counters();
      delays_.clear();
      packets_out_ = bytes_out_ = 0;
    }
  }
  const pxgw::Counters after = engine_->counters();
  engine_->drain();
  leave(now);
  Load r;
  const auto in = static_cast<double>(after.engine.merge_bulk_in - before.engine.merge_bulk_in);
  r.yield = static_cast<double>(after.engine.merge_bulk_full - before.engine.merge_bulk_full) / in;
  r.mean_size = static_cast<double>(bytes_out_) / static_cast<double>(std::max<uint64_t>(packets_out_, 1));
  std::sort(delays_.begin(), delays_.end());
  const size_t at[] = {delays_.size() / 2, delays_.size() * 99 / 100, delays_.size() - 1};
  for (int i = 0; i < 3; ++i) r.delay_us[i] = delays_.empty() ? 0 : delays_[at[i]] / 1000.0;
  return r;
}

}  // namespace

Load simulate(const LoadOptions& options) { return Simulation(options).run(); }

}  // namespace bench
