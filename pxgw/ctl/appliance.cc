// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/appliance.h"

#include <fmt/format.h>
#include <rte_eal.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "fpmtud/host/key_file.h"
#include "pxgw/ctl/log.h"
#include "pxgw/ctl/random.h"
#include "pxgw/dp/probe_stage.h"
#include "pxio/ctl/ethdev_setup.h"
#include "pxio/dp/kernel_port.h"

namespace pxgw {
namespace {

constexpr uint32_t kHeldPackets = 2048;     // 50 us at 100 Gb/s are 430 packets of 1500 B
constexpr uint16_t kDescriptors = 1024;     // of a DPDK port's queue, each way
constexpr uint32_t kKernelSlots = 256;      // 32 slots of one small buffer and 7 large ones
constexpr uint32_t kCachedPerThread = 384;  // caches of 256, which fill up to half more
constexpr uint32_t kUnderWay = 2048;        // a burst of 64 KB packets each way, taken apart
constexpr uint16_t kSmallMtu = 2000;        // packets up to it arrive in one small buffer
constexpr uint32_t kSmallBytes = 2176 + 256, kLargeBytes = 9728 + 256;  // with headroom and headers

pxio::EalOptions eal_options(const Config& c, const BufferPlan& plan) {
  using Pages = pxio::EalOptions::Pages;
  pxio::EalOptions o;
  o.pages = c.hugepages == Config::Pages::kYes  ? Pages::kHuge
            : c.hugepages == Config::Pages::kNo ? Pages::kNone
                                                : Pages::kAuto;
  o.memory_mb = c.memory_mb != 0 ? c.memory_mb : plan.memory_mb;
  o.memory_4k_mb = c.memory_mb != 0 ? c.memory_mb : plan.memory_4k_mb;
  o.extra = c.eal_extra;
  // Virtual devices are attached as they are opened, which tells more of what went wrong.
  for (const PairConfig& pair : c.pairs) {
    for (const PortConfig* p : {&pair.outside, &pair.inside}) {
      if (p->kind != PortConfig::Kind::kPci) continue;
      o.pci = true;
      o.allow.push_back(p->device);
    }
  }
  return o;
}

pxio::FlowHash make_flow_hash(const Config& c) {
  pxio::FlowHash hash{.secret = random_value<uint64_t>()};
  // The fragments of a probe and the unfragmented ones are counted together.
  if (c.policy.probing.probe || !c.policy.probing.answer.empty()) hash.by_address = c.policy.probing.port;
  return hash;
}

Json port_json(const std::string& name, const std::string& side, pxio::Port& port) {
  const pxio::PortStats s = port.stats();
  Json offloads = Json::object();
  for (const pxio::OffloadState& o : port.offloads()) offloads[o.name] = {{"used", o.used}, {"how", o.how}};
  Json rules = Json::array();
  for (const pxio::OffloadState& r : port.flow_rules())
    rules.push_back({{"name", r.name}, {"used", r.used}, {"how", r.how}});
  return {{"name", name},
          {"side", side},
          {"driver", port.driver()},
          {"queues", port.queues()},
          {"offloads", offloads},
          {"flow_rules", rules},
          {"rx_pkts", s.rx_pkts},
          {"rx_bytes", s.rx_bytes},
          {"tx_pkts", s.tx_pkts},
          {"tx_bytes", s.tx_bytes},
          {"rx_dropped", s.rx_dropped},
          {"rx_no_buffer", s.rx_no_buffer},
          {"rx_truncated", s.rx_truncated},
          {"rx_errors", s.rx_errors},
          {"tx_too_big", s.tx_too_big},
          {"tx_errors", s.tx_errors},
          {"tx_down", s.tx_down},
          {"tx_resplit", s.tx_resplit}};
}

}  // namespace

BufferPlan plan_buffers(const Config& c) {
  BufferPlan plan;
  const uint32_t queues = c.workers, pairs = static_cast<uint32_t>(c.pairs.size());
  uint32_t held = 0, held_large = 0, rings = 0;
  for (const PairConfig& p : c.pairs) {
    // A held packet consists of as many small buffers as full segments fit into the inside MTU.
    held += kHeldPackets * (p.inside.mtu / 1300u + 1);
    // Where a NIC merges, into large buffers, those are held: it leaves two apart at most that would fit.
    const bool merges = p.outside.offloads.lro;
    if (merges) held_large += 2 * kHeldPackets;
    if (c.policy.caravans.mode == Caravans::Mode::kOn) {
      constexpr uint32_t kFragments = CaravanStage::kFragmented * Reassembler::kHeldPerPlace;
      held += CaravanStage::kMostHeld + kFragments;
      if (merges || p.outside.mtu > kSmallMtu) held_large += kFragments;
    }
    // Buffers of either pool may wait in any ring.
    if (queues > 1 && (p.outside.kind != PortConfig::Kind::kKernel || p.inside.kind != PortConfig::Kind::kKernel))
      rings += queues * 4 * pxio::FanoutPort::kSlots;  // where they are fanned out
    for (const PortConfig* port : {&p.outside, &p.inside})
      rings += queues * (port->kind == PortConfig::Kind::kKernel ? kKernelSlots : 2 * kDescriptors);
  }
  const uint32_t caches = kCachedPerThread * (queues + 2);
  const uint32_t small = queues * (held + pairs * kUnderWay) + rings + caches;
  const uint32_t large = queues * (held_large + pairs * kUnderWay) + rings + caches;
  plan.small = c.small_buffers != 0 ? c.small_buffers : small;
  plan.large = c.large_buffers != 0 ? c.large_buffers : large;
  const auto megabytes = [&](uint64_t small_bytes, uint64_t large_bytes) {
    const uint64_t bytes = plan.small * small_bytes + plan.large * large_bytes;
    return static_cast<uint32_t>(bytes / (1u << 20) * 9 / 8 + 64);
  };
  plan.memory_mb = megabytes(kSmallBytes, kLargeBytes);
  // DPDK lays no object over two pages that needn't be neighbours.
  plan.memory_4k_mb = megabytes((kSmallBytes + 4095) / 4096 * 4096, (kLargeBytes + 4095) / 4096 * 4096);
  plan.text = fmt::format(
      "buffers: {} small, {} large (port rings {}, held {}, under way {}, caches {}); {}",
      plan.small, plan.large, rings, queues * (held + held_large), queues * pairs * kUnderWay, caches,
      c.memory_mb != 0 ? fmt::format("{} MiB", c.memory_mb)
                       : fmt::format("{} MiB, or {} without hugepages", plan.memory_mb, plan.memory_4k_mb));
  return plan;
}

Capacity capacity_of(const Config& c) {
  Capacity capacity;
  const auto shares = static_cast<uint32_t>(c.workers * c.pairs.size());
  capacity.flows = std::max(1024u, (c.flows + shares - 1) / shares);
  capacity.held = kHeldPackets;
  return capacity;
}

Appliance::Appliance(const Config& config) : config_(config), flow_hash_(make_flow_hash(config)) {
  sched_getaffinity(0, sizeof cpus_, &cpus_);
  const BufferPlan plan = plan_buffers(config_);
  log(Level::kInfo, "{}", pxio::start_eal(eal_options(config_, plan)));
  log(Level::kInfo, "{}", plan.text);
  pools_ = std::make_unique<pxio::BufferPools>(plan.small, plan.large);
  open_ports();
  start_workers();
}

Appliance::~Appliance() { stop(); }

void Appliance::open_ports() {
  for (const PairConfig& pair : config_.pairs) {
    NamedPort outside = open_port(pair.outside, "outside", pair.inside.mtu);
    NamedPort inside = open_port(pair.inside, "inside", 0);
    share_out(outside, inside);
    for (NamedPort* p : {&outside, &inside}) {
      log(Level::kInfo, "port {}: {}, driver {}", p->name, p->side, p->port->driver());
      for (const pxio::OffloadState& o : p->port->offloads())
        log(Level::kInfo, "port {}: {} {}: {}", p->name, o.name, o.used ? "in use" : "not used", o.how);
      watchdog_.add(p->name, *p->port);
      ports_.push_back(std::move(*p));
    }
  }
}

Appliance::NamedPort Appliance::open_port(const PortConfig& p, const char* side, uint16_t merge_mtu) {
  if (p.kind == PortConfig::Kind::kKernel)
    return {p.device, side,
            pxio::KernelPort::open({.ifname = p.device,
                                    .queues = config_.workers,
                                    .mtu = p.mtu,
                                    .buffers = pools_->buffers(),
                                    .lro = p.offloads.lro,
                                    .tso = p.offloads.tso})};
  auto port = pxio::open_ethdev({.device = p.device,
                                 .queues = config_.workers,
                                 .mtu = p.mtu,
                                 .buffers = pools_->buffers(),
                                 .descriptors = kDescriptors,
                                 .merge_mtu = merge_mtu,
                                 .use = p.offloads,
                                 .probe_port = flow_hash_.by_address,
                                 .interrupts = config_.idle == Config::Idle::kSleep});
  for (const std::string& w : port->warnings()) log(Level::kWarning, "{}", w);
  return {p.device, side, std::move(port)};
}

// Both directions of a flow must meet one worker. NICs of one kind agree by RSS with the same key, kernel
// interfaces by the kernel's hash; all others are fanned out.
void Appliance::share_out(NamedPort& outside, NamedPort& inside) {
  const uint16_t workers = config_.workers;
  const bool enough = outside.port->queues() == workers && inside.port->queues() == workers;
  if (workers == 1 || (enough && outside.port->driver() == inside.port->driver())) return;
  for (NamedPort* p : {&outside, &inside}) {
    auto fanned = std::make_unique<pxio::FanoutPort>(std::move(p->port), workers, flow_hash_);
    fan_out_.add(*fanned);
    p->port = std::move(fanned);
  }
}

std::unique_ptr<const PolicySet> Appliance::make_policies(const Config& c) const {
  auto set = std::make_unique<PolicySet>();
  set->generation = generation_;
  for (size_t i = 0; i < c.pairs.size(); ++i) {
    Policy p = c.policy_of(i);
    p.max_merge_segs = std::min(p.max_merge_segs, ports_[2 * i + 1].port->max_tx_segs());
    set->pairs.push_back(std::move(p));
  }
  return set;
}

// Caravans last: they leave nothing for later ones.
void Appliance::add_stages(Worker& worker) {
  const PathProbing& p = config_.policy.probing;
  if (p.probe || !p.answer.empty())
    worker.add_stage([this](Mailbox& box, uint8_t pair) -> StageMaker {
      return [&box, pair, this](const Stage::Context& c) {
        return std::make_unique<ProbeStage>(c, box, pair, probe_key_);
      };
    });
  if (config_.policy.caravans.mode != Caravans::Mode::kOff)
    worker.add_stage([this](Mailbox&, uint8_t pair) -> StageMaker {
      const CaravanStage::Ports ports{ports_[2u * pair + 1].port->max_tx_segs(), ports_[2u * pair].port->max_tx_segs()};
      return [ports, this](const Stage::Context& c) { return std::make_unique<CaravanStage>(c, *caravan_hosts_, ports); };
    });
}

void Appliance::start_workers() {
  make_caravan_hosts();
  if (!config_.pmtu.key_file.empty()) probe_key_ = fpmtud::read_key(config_.pmtu.key_file);
  policies_.push_back(make_policies(config_));
  std::vector<PairPorts> pairs;
  for (size_t i = 0; i < config_.pairs.size(); ++i)
    pairs.push_back({ports_[2 * i].port.get(), ports_[2 * i + 1].port.get()});
  const Capacity capacity = capacity_of(config_);
  for (uint16_t q = 0; q < config_.workers; ++q) {
    try {
      workers_.push_back(
          std::make_unique<Worker>(q, pairs, *policies_.back(), capacity, pools_->buffers()));
      add_stages(*workers_.back());
    } catch (const std::bad_alloc&) {
      throw std::runtime_error(
          fmt::format("flows: no memory for {} flows; give fewer", config_.flows));
    }
  }
  start_prober();
  start_threads();  // last, so that what fails above leaves none behind
}

void Appliance::start_threads() {
  const auto thread_options = [this](std::string name, uint16_t place) {
    PollThreadOptions o{.name = std::move(name), .cpus = cpus_, .sleeps = config_.idle == Config::Idle::kSleep};
    if (place < config_.cpus.size()) o.cpu = config_.cpus[place];
    return o;
  };
  for (uint16_t q = 0; q < config_.workers; ++q) {
    threads_.push_back(std::make_unique<PollThread>(*workers_[q], thread_options(fmt::format("pxgw-worker-{}", q), q)));
  }
  if (!fan_out_.empty())
    fan_out_thread_ = std::make_unique<PollThread>(fan_out_, thread_options("pxgw-fan-out", config_.workers));
}

void Appliance::apply(const Config& config) {
  set_caravan_hosts(config);
  ++generation_;
  policies_.push_back(make_policies(config));
  prober_->set_options(prober_options(config));
  for (const auto& w : workers_) w->use(*policies_.back());
  for (const auto& t : threads_) t->wake();
}

bool Appliance::settled() {
  uint64_t oldest = generation_;
  for (const auto& w : workers_) oldest = std::min(oldest, w->generation());
  std::erase_if(policies_, [oldest](const auto& p) { return p->generation < oldest; });
  return policies_.size() == 1;
}

Counters Appliance::counters() const {
  if (last_) return *last_;
  Counters sum;
  for (const auto& w : workers_) add(sum, w->counters());
  return sum;
}

Json Appliance::stats() const {
  Json j = to_json(counters());
  j["ports"] = Json::array();
  for (size_t i = 0; i < ports_.size(); ++i) {
    const NamedPort& p = ports_[i];
    j["ports"].push_back(port_json(p.name, p.side, *p.port));
    j["ports"].back()["tx_stalls"] = watchdog_.stalls(i);
    j["ports"].back()["tx_stalled"] = watchdog_.stalled(i);
  }
  j["workers"] = Json::array();
  const auto up = std::chrono::steady_clock::now() - start_;
  const auto up_ns = static_cast<double>(std::chrono::duration_cast<pxio::Nanos>(up).count());
  for (size_t i = 0; i < workers_.size(); ++i) {
    const auto& w = workers_[i];
    const Worker::Load l = w->load();
    j["workers"].push_back({{"queue", w->queue()},
                            {"polls", l.polls},
                            {"polls_with_packets", l.polls_with_packets},
                            {"busy_ns", l.busy_ns},
                            {"commands_dropped", w->mailbox().commands_dropped()},
                            {"reports_dropped", w->mailbox().reports_dropped()},
                            {"stalls", worker_watchdog_.stalls(i)},
                            {"stalled", worker_watchdog_.stalled(i)},
                            {"busy_pct", 100.0 * static_cast<double>(l.busy_ns) / up_ns}});
  }
  j["buffers_in_use"] = pools_->in_use();
  j["uptime_s"] = up_ns * 1e-9;
  j["policy_generation"] = generation_;
  return j;
}

// What is held leaves, as at the end; what is known of flows stays.
void Appliance::stop_threads() {
  for (const auto& t : threads_) t->stop();
  if (fan_out_thread_) fan_out_thread_->stop();  // behind the workers: it sends what they left
  threads_.clear();
  fan_out_thread_.reset();
}

void Appliance::mend() {
  bool reset = false;
  for (NamedPort& p : ports_) {
    const pxio::Health h = p.port->health();
    const bool away = h == pxio::Health::kAway;
    if (away && !p.away)
      log(Level::kWarning, "port {}: its interface is gone; traffic goes on when it is back, and up", p.name);
    p.away = away;
    if (h == pxio::Health::kGone)
      throw std::runtime_error(
          fmt::format("port {}: its device is gone; ending, to be started again when it is back", p.name));
    reset |= h == pxio::Health::kReset;
  }
  if (!reset) return;
  const auto begin = std::chrono::steady_clock::now();
  stop_threads();
  for (const NamedPort& p : ports_) {
    if (p.port->health() != pxio::Health::kReset) continue;
    log(Level::kWarning, "port {}: its NIC was reset, or its interface came back; starting it anew", p.name);
    p.port->restart();
  }
  start_threads();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  log(Level::kWarning, "traffic goes on after {:.0f} ms", took.count());
}

void Appliance::watch() {
  mend();
  const auto now = std::chrono::steady_clock::now();
  for (const std::string& line : watchdog_.look(now)) log(Level::kWarning, "{}", line);
  std::vector<uint64_t> polls;
  for (const auto& w : workers_) polls.push_back(w->load().polls);
  for (const std::string& line : worker_watchdog_.look(polls, now)) log(Level::kWarning, "{}", line);
}

uint32_t Appliance::stop() {
  if (!pools_) return 0;
  stop_threads();
  last_ = counters();
  prober_.reset();
  workers_.clear();
  watchdog_ = {};
  ports_.clear();
  const uint32_t missing = pools_->in_use();
  pools_.reset();
  rte_eal_cleanup();
  return missing;
}

}  // namespace pxgw
