// SPDX-License-Identifier: BSD-3-Clause
#include "bench/engine.h"

#include <fmt/format.h>
#include <rte_errno.h>

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
    : options_(o), outside_(w.from_outside.get(), w.to_outside.get()), inside_(w.from_inside.get(), w.to_inside.get()) {
  pxgw::Policy policy;
  policy.hold_limit = o.hold;
  policies_.generation = 1;
  policies_.pairs.push_back(policy);
  pxgw::Capacity capacity;
  capacity.flows = std::max(1024u, o.flows * 2);
  capacity.handshakes = 1024;
  // Every flow may be under way with six segments.
  capacity.held = std::max(4096u, o.flows * 2);
  worker_ = std::make_unique<pxgw::Worker>(0, std::vector<pxgw::PairPorts>{{&outside_, &inside_}}, policies_, capacity,
                                           buffers);
}

void Engine::open_flows(const Frames& frames, rte_mempool* pool) {
  rte_mbuf* out[32];
  for (uint32_t f = 0; f < frames.flows(); ++f) {
    for (int step = 0; step < 3; ++step) {
      rte_mbuf* m = rte_pktmbuf_alloc(pool);
      if (m == nullptr) throw std::runtime_error("no buffer for a handshake");
      const bool in = frames.handshake(f, step, *m) == pxio::Direction::kInbound;
      (in ? outside_ : inside_).inject(m);
      poll();
      for (RingPort* port : {&outside_, &inside_})
        for (uint16_t n; (n = port->collect(out, 32)) != 0;) rte_pktmbuf_free_bulk(out, n);
    }
  }
  const uint64_t created = counters().engine.flow_created;
  if (created != frames.flows())
    throw std::runtime_error(fmt::format("{} of {} flows were opened", created, frames.flows()));
}

pxgw::Counters Engine::counters() {
  worker_->publish();
  return worker_->counters();
}

}  // namespace bench
