// SPDX-License-Identifier: BSD-3-Clause
#include "bench/run.h"

#include <fmt/format.h>
#include <rte_cycles.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>

#include "bench/engine.h"
#include "bench/peers.h"
#include "bench/traffic.h"
#include "pxio/ctl/eal.h"
#include "pxio/dp/pkt.h"

namespace bench {
namespace {

constexpr uint32_t kGroup = 32;
constexpr uint32_t kChunk = 32 * 1024;        // packets between rings, written at once where not warm
constexpr uint32_t kAtOnce = 2;                // polls whose output waits in a ring, where it is many packets
constexpr uint64_t kCycleBytes = 256u << 20;  // that the buffers cycle through at least
constexpr uint16_t kDatagram = 1400;
constexpr uint16_t kSmallRoom = 2048, kLargeRoom = 9600;

// The time that reading the clock itself takes.
uint64_t clock_cost() {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t a = rte_rdtsc_precise();
    least = std::min(least, rte_rdtsc_precise() - a);
  }
  return least;
}

class Bench {
 public:
  Bench(const Case& c, const Options& o);
  Result run();

 private:
  struct Named {
    std::string name;
    std::unique_ptr<Subject> subject;
    std::unique_ptr<Frames> frames;
    std::unique_ptr<Arrivals> arrivals;
    Engine* engine = nullptr;
    bool flood = false;
    uint64_t cycles = 0, counted = 0;
    uint64_t drained = 0;  // buffers in what left last
  };
  void add(const std::string& name, std::unique_ptr<Subject> s);
  void write_one(Named& s, rte_mbuf& m);
  void feed(Named& s, uint32_t n);
  void work(Named& s, uint32_t n);
  void collect(Named& s, bool count);
  void round(Named& s, uint32_t packets);
  uint32_t packet_bytes() const;
  // Packets from inside, instead of full ones from outside.
  bool outbound() const { return cut() || c_.work == Work::kTso || c_.work == Work::kAck; }
  // By software, into packets that are counted as they leave.
  bool cut() const { return c_.work == Work::kSplit || c_.work == Work::kUnbundle; }

  Case c_;
  Options o_;
  std::unique_ptr<CyclingPool> small_, large_;
  std::unique_ptr<pxio::BufferPools> pools_;
  Wires wires_;
  std::optional<OtherCore> other_;
  std::vector<Named> subjects_;
  uint64_t clock_ = clock_cost();
  uint32_t chunk_;
};

Bench::Bench(const Case& c, const Options& o) : c_(c), o_(o), wires_(1u << 17) {
  pin_to(o.worker_cpu);
  // A jumbo becomes seven, a merged packet has seven buffers.
  chunk_ = outbound() || c.work == Work::kLro ? kChunk / 8 : kChunk;
  if (!outbound()) {
    const auto cycling = static_cast<uint32_t>(kCycleBytes / (kSmallRoom + 256u));
    // Held by the engine, waiting in rings, and those that the pool itself keeps.
    const uint32_t held = c.flows * 7, fed = 3 * chunk_ * (c.work == Work::kLro ? 5 : 1);
    small_ = std::make_unique<CyclingPool>("bench_small", std::max(cycling, held + fed), kSmallRoom);
  }
  if (outbound() || c.work == Work::kBoth) {
    // Payload is warm where it stays in the second-level cache.
    const auto cycling = static_cast<uint32_t>(kCycleBytes / (kLargeRoom + 256u));
    large_ = std::make_unique<CyclingPool>("bench_large", c.lines == Lines::kWarm && c.work == Work::kSplit ? 2 * kGroup : cycling, kLargeRoom);
  }
  pools_ = std::make_unique<pxio::BufferPools>(outbound() || c.work == Work::kBoth ? 65536 : 1024, 1024);
  if (c.lines == Lines::kOtherCore) other_.emplace(o.writer_cpu);

  EngineOptions e;
  e.flows = c.flows;
  e.caravans = c.work == Work::kBundle || c.work == Work::kUnbundle;
  e.version = c.version;
  e.tso = c.work == Work::kTso;
  auto engine = std::make_unique<Engine>(e, wires_, pools_->buffers());
  Engine* p = engine.get();
  add("engine", std::move(engine));
  subjects_.back().engine = p;
  // From the engine's own buffers: payload stays zero in those of the workload.
  p->open_flows(*subjects_.back().frames, pools_->buffers().small);
  if (c.work == Work::kSplit) {
    add("read", read_floor(wires_));
    if (o.peers && c.version == 4) {
      add("gso", gso(wires_, Sums::kNone));
      add("gso+sums", gso(wires_, Sums::kMade));
    }
  } else if (c.work != Work::kBoth && c.work != Work::kUnbundle) {
    add("floor", merge_floor(wires_, outbound() ? pxio::Direction::kOutbound : pxio::Direction::kInbound));
    if (o.peers && c.version == 4 && c.work == Work::kMerge && c.run != 0 && c.flows <= 1024)
      add("gro", gro(wires_, c.flows, c.run == 1 ? std::max(1u, 6 * c.flows / kGroup) : 1));
  }
}

void Bench::add(const std::string& name, std::unique_ptr<Subject> s) {
  Named n;
  n.name = name;
  n.subject = std::move(s);
  n.frames = std::make_unique<Frames>(c_.flows, Shape{c_.version, true});
  if (c_.run != 0) {
    n.arrivals = runs(c_.flows, c_.run);
  } else {
    MixOptions m;
    m.flows = c_.flows;
    n.arrivals = mix(m);
  }
  subjects_.push_back(std::move(n));
}

void Bench::write_one(Named& s, rte_mbuf& m) {
  if (c_.work == Work::kFlood && (s.flood = !s.flood)) return s.frames->flood(m);
  const Arrival a = s.arrivals->next();
  switch (c_.work) {
    case Work::kMerge:
    case Work::kBoth:
    case Work::kFlood:
      return s.frames->data(a.flow, pxio::Direction::kInbound, s.frames->full_payload(), a.push, m);
    case Work::kSplit:
      return s.frames->data(a.flow, pxio::Direction::kOutbound, s.frames->jumbo_payload(), a.push, m);
    case Work::kTso:
      s.frames->data(a.flow, pxio::Direction::kOutbound, s.frames->jumbo_payload(), a.push, m);
      m.ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD | RTE_MBUF_F_RX_IP_CKSUM_GOOD;
      return;
    case Work::kAck:
      return s.frames->data(a.flow, pxio::Direction::kOutbound, 0, false, m);
    case Work::kForward:
      return s.frames->datagram(a.flow, 1472, m);
    case Work::kBundle:
      return s.frames->datagram(a.flow, kDatagram, m);
    case Work::kUnbundle:
      return s.frames->caravan(a.flow, 6, kDatagram, m);
    case Work::kRequest:
      return s.frames->data(a.flow, pxio::Direction::kInbound, 128, true, m);
    case Work::kLro:
      s.frames->data_chain(a.flow, pxio::Direction::kInbound, 6u * s.frames->full_payload(), m);
      m.ol_flags = RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD | RTE_MBUF_F_RX_IP_CKSUM_GOOD;
      m.tso_segsz = s.frames->full_payload();
      return;
  }
}

void Bench::feed(Named& s, uint32_t n) {
  std::vector<rte_mbuf*> pkts(n), jumbos(c_.work == Work::kBoth ? n / 6 : 0);
  if (c_.work == Work::kLro) {
    for (rte_mbuf*& m : pkts) m = small_->get_chain(5);
  } else {
    (outbound() ? large_ : small_)->get(pkts.data(), n);
  }
  if (!jumbos.empty()) large_->get(jumbos.data(), static_cast<uint32_t>(jumbos.size()));
  auto fill = [&] {
    for (rte_mbuf* m : pkts) write_one(s, *m);
    for (rte_mbuf* m : jumbos)
      s.frames->data(s.arrivals->next().flow, pxio::Direction::kOutbound, s.frames->jumbo_payload(), false, *m);
  };
  if (other_) {
    other_->run(fill);
  } else {
    fill();
  }
  if (c_.lines == Lines::kPacketCold || c_.lines == Lines::kAllCold) {
    for (rte_mbuf* m : pkts) cool(*m, c_.lines, cut());
    for (rte_mbuf* m : jumbos) cool(*m, c_.lines, true);
    fence();
  }
  rte_ring* to = (outbound() ? wires_.from_inside : wires_.from_outside).get();
  rte_ring_sp_enqueue_bulk(to, reinterpret_cast<void**>(pkts.data()), n, nullptr);
  if (!jumbos.empty())
    rte_ring_sp_enqueue_bulk(wires_.from_inside.get(), reinterpret_cast<void**>(jumbos.data()),
                             static_cast<unsigned>(jumbos.size()), nullptr);
}

void Bench::collect(Named& s, bool count) {
  rte_mbuf* out[256];
  for (rte_ring* r : {wires_.to_outside.get(), wires_.to_inside.get()}) {
    for (unsigned n; (n = rte_ring_sc_dequeue_burst(r, reinterpret_cast<void**>(out), 256, nullptr)) != 0;) {
      if (count && r == wires_.to_outside.get()) s.counted += n;
      for (unsigned i = 0; i < n; ++i) s.drained += out[i]->nb_segs;
      rte_pktmbuf_free_bulk(out, n);
    }
  }
}

// Feeds n packets and has them worked off, timed.
void Bench::work(Named& s, uint32_t n) {
  feed(s, n);
  // As many polls as there are bursts: a subject that has taken one ahead still has it to work on. What
  // was split is taken away as a port would, before its bytes fill the caches.
  const uint32_t at_once = cut() || c_.work == Work::kBoth ? kAtOnce : UINT32_MAX;
  for (uint32_t left = n / kGroup; left != 0;) {
    const uint32_t polls = std::min(left, at_once);
    left -= polls;
    const uint64_t begin = rte_rdtsc_precise();
    for (uint32_t k = 0; k < polls; ++k) s.subject->poll();
    s.cycles += rte_rdtsc_precise() - begin - clock_;
    collect(s, cut() && s.name != "read");
  }
  if (!cut()) s.counted += n;
}

void Bench::round(Named& s, uint32_t packets) {
  const uint32_t step = c_.lines == Lines::kWarm ? kGroup : chunk_;
  for (uint32_t done = 0; done < packets; done += step) work(s, step);
}

// Of IP.
uint32_t Bench::packet_bytes() const {
  const uint32_t headers = subjects_[0].frames->header_len() - 14u;
  switch (c_.work) {
    case Work::kRequest: return 128 + headers;
    case Work::kLro: return 6u * subjects_[0].frames->full_payload() + headers;
    case Work::kTso: return 9000;
    case Work::kAck: return headers;
    case Work::kBundle:
    case Work::kUnbundle: return kDatagram + (c_.version == 4 ? 28u : 48u);
    default: return 1500;
  }
}

Result Bench::run() {
  // Flows that take turns are all at the same segment of six: a round is as many whole cycles.
  const uint32_t cycle = c_.run == 0 || outbound() ? 1 : c_.flows * (c_.run < 6 ? 6 : c_.run);
  const uint32_t least = std::max(o_.packets / (outbound() ? 8 : 1), cycle);
  const uint32_t packets = (least + chunk_ - 1) / chunk_ * chunk_;
  // Until as many packets are held as ever will be.
  const uint32_t warm_up = std::max(chunk_, outbound() ? 0 : (c_.flows * 8 + chunk_ - 1) / chunk_ * chunk_);
  Result r;
  r.what = c_;
  r.packet_bytes = packet_bytes();
  for (Named& s : subjects_) {
    round(s, s.name == "gro" ? chunk_ : warm_up);
    s.subject->drain();
    collect(s, false);
    s.drained = 0;
  }
  const pxgw::Counters before = subjects_[0].engine->counters();
  for (uint32_t k = 0; k < o_.rounds; ++k) {
    for (Named& s : subjects_) {
      s.cycles = s.counted = 0;
      // The slowest is given less to do; a figure a packet stays one.
      round(s, s.name == "gro" ? std::max(chunk_, packets / 8) : packets);
      const double count = s.name == "read" ? static_cast<double>(packets) * 7 : static_cast<double>(s.counted);
      r.cycles[s.name].push_back(static_cast<double>(s.cycles) / count);
    }
  }
  // Of what has left: what is still under way might have become a full packet.
  const pxgw::Counters c = subjects_[0].engine->counters();
  for (Named& s : subjects_) {
    s.drained = 0;
    s.subject->drain();
    collect(s, true);
  }
  if (c.engine.flow_created != c_.flows)
    throw std::runtime_error(fmt::format("{} flows were made of {}", c.engine.flow_created, c_.flows));
  const double left = static_cast<double>(c.engine.merge_bulk_in - before.engine.merge_bulk_in - subjects_[0].drained);
  if (left > 0 && c.engine.merge_bulk_in != before.engine.merge_bulk_in) r.yield = static_cast<double>(c.engine.merge_bulk_full - before.engine.merge_bulk_full) / left;
  if (c_.work == Work::kBundle)
    r.yield = static_cast<double>(c.caravan.bundle_out_datagrams) / static_cast<double>(c.caravan.bundle_in);
  if (c_.work == Work::kUnbundle && c.caravan.unbundle_out == 0) throw std::runtime_error("no caravan came apart");
  if (c_.work == Work::kTso && c.engine.split_by_port == 0) throw std::runtime_error("nothing was left to the port");
  subjects_.clear();
  return r;
}

}  // namespace

std::string Case::name() const {
  return fmt::format("{}/{}/{}/{}/v{}", name_in(kWorks, work), flows, run == 0 ? "mix" : fmt::format("runs-{}", run),
                     name_in(kLines, lines), version);
}

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const size_t n = v.size();
  return n % 2 != 0 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

Result measure(const Case& c, const Options& o) { return Bench(c, o).run(); }

}  // namespace bench
