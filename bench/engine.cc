// SPDX-License-Identifier: BSD-3-Clause
#include "bench/engine.h"

#include <fmt/format.h>
#include <rte_errno.h>

#include <cstring>
#include <stdexcept>

#include "pxio/dp/pkt.h"

namespace bench {

Ring make_ring(const std::string& name, uint32_t size) {
  rte_ring* r = rte_ring_create(name.c_str(), size, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
  if (r == nullptr) throw std::runtime_error(fmt::format("no ring of {}: {}", size, rte_strerror(rte_errno)));
  return Ring(r);
}

Wires::Wires(uint32_t size)
    : from_outside(make_ring("from_outside", size)), from_inside(make_ring("from_inside", size)),
      to_outside(make_ring("to_outside", size)), to_inside(make_ring("to_inside", size)) {}

Engine::Engine(const EngineOptions& o, Wires& w, pxio::Buffers buffers)
    : options_(o), hosts_(o.caravans ? 2 * o.flows : 1, {1, 2}, 1) {
  auto outside = std::make_unique<RingPort>(w.from_outside.get(), w.to_outside.get(), pxio::Segmenting{.able = o.tso});
  auto inside = std::make_unique<RingPort>(w.from_inside.get(), w.to_inside.get());
  wire_outside_ = outside.get();
  wire_inside_ = inside.get();
  outside_ = std::move(outside);
  inside_ = std::move(inside);
  if (o.workers > 1) {
    for (auto* port : {&outside_, &inside_}) {
      auto fanned = std::make_unique<pxio::FanoutPort>(std::move(*port), o.workers, pxio::FlowHash{.secret = 1});
      fanned_.push_back(fanned.get());
      *port = std::move(fanned);
    }
  }
  pxgw::Policy policy;
  policy.hold_limit = o.hold;
  if (o.caravans) policy.caravans.mode = pxgw::Caravans::Mode::kOn;
  policies_.generation = 1;
  policies_.pairs.push_back(policy);
  pxgw::Capacity capacity;
  capacity.flows = std::max(1024u, o.flows * 2);
  capacity.handshakes = 1024;
  // Every flow may be under way with six segments.
  capacity.held = std::max(4096u, o.flows * 2);
  times_.resize(o.workers);
  for (uint16_t q = 0; q < o.workers; ++q)
    workers_.push_back(std::make_unique<pxgw::Worker>(
        q, std::vector<pxgw::PairPorts>{{outside_.get(), inside_.get()}}, policies_, capacity, buffers));
  if (!o.caravans) return;
  for (const auto& worker : workers_)
    worker->add_stage([this](pxgw::Mailbox&, uint8_t) -> pxgw::StageMaker {
      return [this](const pxgw::Stage::Context& c) {
        return std::make_unique<pxgw::CaravanStage>(c, hosts_, pxgw::CaravanStage::Ports{64, 64});
      };
    });
  for (uint32_t f = 0; f < o.flows; f += 16) {
    caravan::Host h{{}, 9000, caravan::Time::max()};
    const pxio::be32 address(Frames::inside_host(f));
    if (o.version == 6) {
      h.address.family = caravan::Family::kIpv6;
      h.address.bytes = {0x20, 0x01};
    }
    std::memcpy(h.address.bytes.data() + (o.version == 6 ? 12 : 0), &address, sizeof address);
    if (!hosts_.table.set(h, times_[0].now)) throw std::runtime_error("no room for hosts that take caravans");
  }
}

void Engine::open_flows(const Frames& frames, rte_mempool* pool) {
  rte_mbuf* out[32];
  for (uint32_t f = 0; f < frames.flows(); ++f) {
    for (int step = 0; step < 3; ++step) {
      rte_mbuf* m = rte_pktmbuf_alloc(pool);
      if (m == nullptr) throw std::runtime_error("no buffer for a handshake");
      const bool in = frames.handshake(f, step, *m) == pxio::Direction::kInbound;
      (in ? wire_outside_ : wire_inside_)->inject(m);
      fan_out(1);
      poll();
      gather();
      for (RingPort* port : {wire_outside_, wire_inside_})
        for (uint16_t n; (n = port->collect(out, 32)) != 0;) rte_pktmbuf_free_bulk(out, n);
    }
  }
  const uint64_t created = counters().engine.flow_created;
  if (created != frames.flows())
    throw std::runtime_error(fmt::format("{} of {} flows were opened", created, frames.flows()));
}

void Engine::drain() noexcept {
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i]->drain(times_[i].now);
  gather();
}

void Engine::fan_out(uint32_t bursts) noexcept {
  for (pxio::FanoutPort* p : fanned_)
    for (uint32_t i = 0; i < bursts; ++i) p->pump();
}

void Engine::gather() noexcept {
  for (pxio::FanoutPort* p : fanned_) p->drain();
}

uint64_t Engine::lost() const {
  uint64_t n = 0;
  for (pxio::FanoutPort* p : fanned_) n += p->stats().rx_dropped;
  return n;
}

uint64_t Engine::received(uint16_t worker) {
  workers_[worker]->publish();
  return workers_[worker]->counters().in_pkts;
}

pxgw::Counters Engine::counters() {
  pxgw::Counters sum;
  for (const auto& w : workers_) {
    w->publish();
    pxgw::add(sum, w->counters());
  }
  return sum;
}

FanOutAlone::FanOutAlone(uint16_t workers, Wires& w)
    : workers_(workers), port_(std::make_unique<RingPort>(w.from_outside.get(), w.to_outside.get()), workers,
                               pxio::FlowHash{.secret = 1}) {}

void FanOutAlone::send_back() noexcept {
  rte_mbuf* pkts[pxio::kBurst];
  for (uint16_t w = 0; w < workers_; ++w)
    while (const uint16_t n = port_.rx_burst(w, pkts, pxio::kBurst)) port_.tx_burst(w, pkts, n);
}

void FanOutAlone::drain() noexcept {
  send_back();
  port_.drain();
}

}  // namespace bench
