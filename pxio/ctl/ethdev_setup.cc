// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/ctl/ethdev_setup.h"

#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "pxio/ctl/eal_log.h"
#include "pxio/ctl/flow_rules.h"

namespace pxio {
namespace {

// Ethernet header and two VLAN tags.
constexpr uint32_t kLinkHeader = 14 + 8;

[[noreturn]] void fail_port(const std::string& name, const std::string& what) {
  throw std::runtime_error(fmt::format("port {}: {}", name, what));
}

void check_port(const std::string& name, EalLog& log, int rc, const char* what) {
  if (rc >= 0) return;
  const std::string why = log.reason();
  fail_port(name, fmt::format("{}: {}{}{}", what, rte_strerror(-rc), why.empty() ? "" : "; ", why));
}

}  // namespace

// What a port is started with, and started again.
class EthdevStart {
 public:
  rte_eth_conf conf{};
  rte_eth_rxconf rx{};
  rte_eth_txconf tx{};
  uint16_t queues = 1, rx_descs = 0, tx_descs = 0, mtu = 0;
  rte_mempool* pool = nullptr;
  bool fixed_frames = false;
  bool sleeps = false;  // its workers, on interrupts

  // All but its rules. Throws std::runtime_error.
  void run(EthdevPort::Settings& s, EalLog& log) const;

 private:
  void interrupts(EthdevPort::Settings& s) const;
};

void EthdevStart::run(EthdevPort::Settings& s, EalLog& log) const {
  const auto check = [&](int rc, const char* what) { check_port(s.name, log, rc, what); };
  check(rte_eth_dev_configure(s.id, queues, queues, &conf), "it can't be configured");
  uint16_t rx_ring = rx_descs, tx_ring = tx_descs;
  check(rte_eth_dev_adjust_nb_rx_tx_desc(s.id, &rx_ring, &tx_ring), "no rings of this size");
  const int socket = rte_eth_dev_socket_id(s.id);
  const auto node = static_cast<unsigned>(socket);  // SOCKET_ID_ANY where it isn't known
  for (uint16_t q = 0; q < queues; ++q) {
    check(rte_eth_rx_queue_setup(s.id, q, rx_ring, node, &rx, pool), "no receive queue");
    check(rte_eth_tx_queue_setup(s.id, q, tx_ring, node, &tx), "no transmit queue");
  }
  check(rte_eth_dev_start(s.id), "it doesn't start");
  // Some drivers take any MTU and set another.
  uint16_t set = 0;
  if (!fixed_frames && rte_eth_dev_get_mtu(s.id, &set) >= 0 && set < mtu)
    fail_port(s.name, fmt::format("its driver {} has set an MTU of {} where {} was asked for; configure that, or "
                                  "another NIC",
                                  s.driver, set, mtu));
  if (sleeps) interrupts(s);
}

// Where one queue has none, all are looked at instead of waited for.
void EthdevStart::interrupts(EthdevPort::Settings& s) const {
  for (uint16_t q = 0; q < queues; ++q) {
    Fd epoll(epoll_create1(EPOLL_CLOEXEC));
    if (epoll.get() < 0 || rte_eth_dev_rx_intr_ctl_q(s.id, q, epoll.get(), RTE_INTR_EVENT_ADD, nullptr) != 0)
      return s.interrupts.clear();
    // Those that needn't enable them, net_tap, have no call for it.
    if (const int rc = rte_eth_dev_rx_intr_enable(s.id, q); rc != 0 && rc != -ENOTSUP) return s.interrupts.clear();
    rte_eth_dev_rx_intr_disable(s.id, q);
    s.interrupts.push_back(std::move(epoll));
  }
}

namespace {

class Setup {
 public:
  explicit Setup(const EthdevOptions& o) : o_(o), name_(o.device.substr(0, o.device.find(','))) {}
  std::unique_ptr<EthdevPort> run();

 private:
  [[noreturn]] void fail(const std::string& what) const { fail_port(name_, what); }
  void check(int rc, const char* what) { check_port(name_, log_, rc, what); }
  void warn(const std::string& text) { s_.warnings.push_back(fmt::format("port {}: {}", name_, text)); }

  void attach();
  void check_limits();
  void make_plan();
  void choose_pool();
  void check_af_packet();
  void start();
  void flow_rules();

  const EthdevOptions& o_;
  const std::string name_;
  EalLog log_;
  EthdevPort::Settings s_;
  rte_eth_dev_info info_{};
  const DriverQuirks* quirks_ = nullptr;
  EthdevPlan plan_;
  rte_mempool* pool_ = nullptr;
  uint16_t descs_ = 0;
};

void Setup::attach() {
  if (rte_eth_dev_get_port_by_name(name_.c_str(), &s_.id) == 0) return;  // EAL has found it already
  const int rc = rte_dev_probe(o_.device.c_str());
  if (rc < 0) {
    const std::string why = log_.reason();
    std::string fix;
    if (name_.find(':') != std::string::npos) {
      fix = "; is it bound to vfio-pci (dpdk-devbind.py --status)?";
    } else if (why.empty() || why.find("parse device") != std::string::npos) {
      fix = "; a virtual device is named by driver and number, net_af_packet0,iface=eth0";
    }
    fail(fmt::format("DPDK can't attach it: {}{}", why.empty() ? rte_strerror(-rc) : why, fix));
  }
  s_.remove = true;
  if (rte_eth_dev_get_port_by_name(name_.c_str(), &s_.id) != 0) {
    rte_dev_iterator it;
    s_.id = RTE_MAX_ETHPORTS;
    if (rte_eth_iterator_init(&it, o_.device.c_str()) == 0) {
      s_.id = rte_eth_iterator_next(&it);
      if (s_.id != RTE_MAX_ETHPORTS) rte_eth_iterator_cleanup(&it);
    }
    if (s_.id == RTE_MAX_ETHPORTS) fail("the device is there, but it isn't a network port");
  }
}

void Setup::check_limits() {
  if (info_.max_rx_queues == 0 || info_.max_tx_queues == 0)
    fail(fmt::format("its driver {} has {} queues for receiving and {} for sending", info_.driver_name,
                     info_.max_rx_queues, info_.max_tx_queues));
  if (quirks_->fixed_frames) return;  // says 1500 and takes what its frames hold
  const bool known = info_.max_mtu != UINT16_MAX && info_.max_rx_pktlen > info_.max_mtu;
  const uint32_t overhead = known ? info_.max_rx_pktlen - info_.max_mtu : 18;
  const uint32_t most = std::min<uint32_t>(info_.max_mtu, info_.max_rx_pktlen - overhead);
  if (o_.mtu > most) {
    fail(fmt::format("an MTU of {} is configured, its driver {} takes at most {}{}", o_.mtu,
                     info_.driver_name, most,
                     quirks_->wraps_interface
                         ? "; open the kernel interface itself as a port instead"
                         : ""));
  }
}

// Its frames have a fixed size, and what is longer is cut without a word.
void Setup::check_af_packet() {
  uint32_t frame = 2048;
  const size_t at = o_.device.find("framesz=");
  if (at != std::string::npos)
    std::from_chars(o_.device.data() + at + 8, o_.device.data() + o_.device.size(), frame);
  const uint32_t need = o_.mtu + kLinkHeader + 66;
  if (frame < need) {
    const uint32_t fit = (need + 1023) / 1024 * 1024;
    fail(fmt::format("frames of {} B can't hold an MTU of {}; add framesz={},blocksz={} to the device's "
                     "arguments, or open the kernel interface itself as a port",
                     frame, o_.mtu, fit, fit * 4));
  }
  if (room_of(pool_) < frame - 32) pool_ = o_.buffers.large;
  if (room_of(pool_) < frame - 32)
    fail(fmt::format("framesz={} needs buffers of {} B, there are {} B; use a smaller one", frame,
                     frame - 32, room_of(pool_)));
}

void Setup::choose_pool() {
  pool_ = plan_.large_buffers ? o_.buffers.large : o_.buffers.small;
  if (quirks_->fixed_frames) check_af_packet();
  const uint32_t need = uint32_t{plan_.queues} * descs_;
  const uint32_t have = rte_mempool_avail_count(pool_);
  if (need >= have) {
    fail(fmt::format("{} receive descriptors ({} queues of {}) need as many buffers, {} of the {} kind are "
                     "left; raise the number of buffers, or lower that of descriptors",
                     need, plan_.queues, descs_, have, pool_ == o_.buffers.small ? "small" : "large"));
  }
}

void Setup::make_plan() {
  try {
    plan_ = plan_ethdev({.info = info_,
                         .quirks = *quirks_,
                         .queues = o_.queues,
                         .mtu = o_.mtu,
                         .merge_mtu = o_.merge_mtu,
                         .small_room = room_of(o_.buffers.small),
                         .large_room = room_of(o_.buffers.large),
                         .use = o_.use});
  } catch (const std::runtime_error& e) {
    fail(e.what());
  }
  for (const std::string& w : plan_.warnings) warn(w);
  if (!quirks_->warning.empty()) warn(std::string(quirks_->warning));
  s_.driver = info_.driver_name;
  s_.queues = plan_.queues;
  s_.max_segs = plan_.max_segs;
  s_.receive = plan_.receive;
  s_.tso = plan_.tso;
  s_.ip_checksum = plan_.ip_checksum;
  s_.offloads = plan_.offloads;
}

void Setup::start() {
  auto start = std::make_shared<EthdevStart>();
  start->conf = plan_.conf;
  start->conf.intr_conf.rxq = o_.interrupts;
  if (quirks_->fixed_frames) start->conf.rxmode.mtu = 0;
  start->rx = info_.default_rxconf;
  start->rx.offloads = plan_.conf.rxmode.offloads;
  // Never FAST_FREE: packets are of both pools.
  start->tx = info_.default_txconf;
  start->tx.offloads = plan_.conf.txmode.offloads;
  start->queues = plan_.queues;
  start->rx_descs = descs_;
  start->tx_descs = o_.descriptors;
  start->mtu = o_.mtu;
  start->pool = pool_;
  start->fixed_frames = quirks_->fixed_frames;
  start->sleeps = o_.interrupts;
  start->run(s_, log_);
  s_.start = std::move(start);
}

void Setup::flow_rules() {
  std::vector<FlowRule> wanted = wanted_flow_rules(o_.probe_port);
  if (!o_.use.flow_rules || plan_.queues == 1) {
    const char* why = o_.use.flow_rules ? "one queue" : "off by configuration";
    s_.flow_rules = unused_flow_rules(wanted, why);
    s_.offloads.push_back({"flow_rules", false, why});
    return;
  }
  s_.rules = std::make_shared<FlowRules>(s_.id, uint16_t{0}, quirks_->fragments, std::move(wanted));
  s_.rules->create();
  s_.flow_rules = s_.rules->states();
  const auto used = std::count_if(s_.flow_rules.begin(), s_.flow_rules.end(), [](const auto& r) { return r.used; });
  s_.offloads.push_back({"flow_rules", used != 0, fmt::format("{} of {} rules", used, s_.flow_rules.size())});
}

std::unique_ptr<EthdevPort> Setup::run() {
  attach();
  s_.name = name_;
  s_.buffers = o_.buffers;
  s_.max_frame = o_.mtu + kLinkHeader;
  try {
    check(rte_eth_dev_info_get(s_.id, &info_), "no information");
    quirks_ = &quirks_of(info_.driver_name);
    check_limits();
    descs_ = o_.descriptors;
    if (descs_ > info_.rx_desc_lim.nb_max && info_.rx_desc_lim.nb_max != 0) descs_ = info_.rx_desc_lim.nb_max;
    make_plan();
    choose_pool();
    start();
    flow_rules();
    if (const int rc = rte_eth_promiscuous_enable(s_.id); rc < 0)
      warn(fmt::format("no promiscuous mode ({}): frames to other addresses may be lost", rte_strerror(-rc)));
  } catch (...) {
    s_.queues = 0;
    s_.rules.reset();
    s_.interrupts.clear();
    EthdevPort lets_go(std::move(s_));
    throw;
  }
  return std::make_unique<EthdevPort>(std::move(s_));
}

}  // namespace

std::unique_ptr<EthdevPort> open_ethdev(const EthdevOptions& options) { return Setup(options).run(); }

namespace {

// DPDK's interrupt thread.
int note_health(uint16_t, rte_eth_event_type event, void* health, void*) {
  static_cast<std::atomic<Health>*>(health)->store(event == RTE_ETH_EVENT_INTR_RMV ? Health::kGone : Health::kReset,
                                                   std::memory_order_relaxed);
  return 0;
}
constexpr std::array kEvents{RTE_ETH_EVENT_INTR_RESET, RTE_ETH_EVENT_INTR_RMV};

}  // namespace

EthdevPort::EthdevPort(Settings settings)
    : s_(std::move(settings)), queues_(std::make_unique<Queue[]>(s_.queues)) {
  for (const rte_eth_event_type e : kEvents) rte_eth_dev_callback_register(s_.id, e, note_health, &health_);
}

void EthdevPort::forget_interrupts() noexcept {
  for (uint16_t q = 0; q < s_.interrupts.size(); ++q)
    rte_eth_dev_rx_intr_ctl_q(s_.id, q, s_.interrupts[q].get(), RTE_INTR_EVENT_DEL, nullptr);
  s_.interrupts.clear();
}

void EthdevPort::restart() {
  EalLog log;
  health_.store(Health::kGood, std::memory_order_relaxed);
  if (s_.rules) s_.rules->remove();
  forget_interrupts();
  // Drivers that have no reset of their own are stopped and configured anew.
  if (const int rc = rte_eth_dev_reset(s_.id); rc == -ENOTSUP) {
    rte_eth_dev_stop(s_.id);
  } else if (rc != 0) {
    check_port(s_.name, log, rc, "it can't be reset");
  }
  s_.start->run(s_, log);
  if (s_.rules) {
    s_.rules->create();
    s_.flow_rules = s_.rules->states();
  }
  rte_eth_promiscuous_enable(s_.id);  // said at the start where it can't be had
}

EthdevPort::~EthdevPort() {
  // What still waits isn't given back by every driver (net_ring).
  std::array<rte_mbuf*, 32> waiting;
  for (uint16_t q = 0; q < s_.queues; ++q) {
    for (int i = 0; i < 4096; ++i) {
      const uint16_t n = rte_eth_rx_burst(s_.id, q, waiting.data(), waiting.size());
      if (n == 0) break;
      rte_pktmbuf_free_bulk(waiting.data(), n);
    }
  }
  EalLog quiet;
  forget_interrupts();
  // Again while the callback runs.
  for (const rte_eth_event_type e : kEvents)
    while (rte_eth_dev_callback_unregister(s_.id, e, note_health, &health_) == -EAGAIN) {
    }
  rte_eth_dev_info info{};
  const bool known = rte_eth_dev_info_get(s_.id, &info) == 0;
  s_.rules.reset();
  rte_eth_dev_stop(s_.id);
  rte_eth_dev_close(s_.id);
  if (s_.remove && known && info.device != nullptr) rte_dev_remove(info.device);
}

PortStats EthdevPort::stats() {
  PortStats r;
  rte_eth_stats nic{};
  if (rte_eth_stats_get(s_.id, &nic) == 0) {
    r.rx_pkts = nic.ipackets;
    r.rx_bytes = nic.ibytes;
    r.tx_pkts = nic.opackets;
    r.tx_bytes = nic.obytes;
    r.rx_dropped = nic.imissed;
    r.rx_no_buffer = nic.rx_nombuf;
    r.rx_errors = nic.ierrors;
    r.tx_errors = nic.oerrors;
  }
  for (uint16_t q = 0; q < s_.queues; ++q) {
    r.tx_too_big += queues_[q].tx_too_big.load(std::memory_order_relaxed);
    r.tx_errors += queues_[q].tx_errors.load(std::memory_order_relaxed);
    r.tx_resplit += queues_[q].tx_resplit.load(std::memory_order_relaxed);
  }
  return r;
}

int EthdevPort::wait_fd(uint16_t queue) const noexcept {
  return queue < s_.interrupts.size() ? s_.interrupts[queue].get() : -1;
}

void EthdevPort::arm(uint16_t queue) noexcept {
  if (queue < s_.interrupts.size()) rte_eth_dev_rx_intr_enable(s_.id, queue);
}

void EthdevPort::disarm(uint16_t queue) noexcept {
  if (queue >= s_.interrupts.size()) return;
  rte_eth_dev_rx_intr_disable(s_.id, queue);
  rte_epoll_event e;
  rte_epoll_wait(s_.interrupts[queue].get(), &e, 1, 0);  // takes the event's count, where it has one
}

TxProgress EthdevPort::tx_progress(uint16_t queue) const noexcept {
  const Queue& q = queues_[queue];
  return {q.tx_taken.load(std::memory_order_relaxed), q.tx_refused.load(std::memory_order_relaxed)};
}

}  // namespace pxio
