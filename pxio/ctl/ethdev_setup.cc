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

class Setup {
 public:
  explicit Setup(const EthdevOptions& o) : o_(o), name_(o.device.substr(0, o.device.find(','))) {}
  std::unique_ptr<EthdevPort> run();

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(fmt::format("port {}: {}", name_, what));
  }
  void check(int rc, const char* what) {
    if (rc >= 0) return;
    const std::string why = log_.reason();
    fail(fmt::format("{}: {}{}{}", what, rte_strerror(-rc), why.empty() ? "" : "; ", why));
  }
  void warn(const std::string& text) { s_.warnings.push_back(fmt::format("port {}: {}", name_, text)); }

  void attach();
  void check_limits();
  void make_plan();
  void choose_pool();
  void check_af_packet();
  void configure();
  void check_mtu();
  void queues();
  void interrupts();
  void flow_rules();

  const EthdevOptions& o_;
  const std::string name_;
  EalLog log_;
  EthdevPort::Settings s_;
  rte_eth_dev_info info_{};
  const DriverQuirks* quirks_ = nullptr;
  EthdevPlan plan_;
  rte_mempool* pool_ = nullptr;
  uint16_t rx_descs_ = 0, tx_descs_ = 0;
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
  const uint32_t need = uint32_t{plan_.queues} * rx_descs_;
  const uint32_t have = rte_mempool_avail_count(pool_);
  if (need >= have) {
    fail(fmt::format("{} receive descriptors ({} queues of {}) need as many buffers, {} of the {} kind are "
                     "left; raise the number of buffers, or lower that of descriptors",
                     need, plan_.queues, rx_descs_, have, pool_ == o_.buffers.small ? "small" : "large"));
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

void Setup::configure() {
  if (quirks_->fixed_frames) plan_.conf.rxmode.mtu = 0;
  plan_.conf.intr_conf.rxq = o_.interrupts;
  check(rte_eth_dev_configure(s_.id, plan_.queues, plan_.queues, &plan_.conf), "it can't be configured");
  check(rte_eth_dev_adjust_nb_rx_tx_desc(s_.id, &rx_descs_, &tx_descs_), "no rings of this size");
}

// Some drivers take any MTU and set another.
void Setup::check_mtu() {
  uint16_t mtu = 0;
  if (quirks_->fixed_frames || rte_eth_dev_get_mtu(s_.id, &mtu) < 0 || mtu >= o_.mtu) return;
  fail(fmt::format("its driver {} has set an MTU of {} where {} was asked for; configure that, or another NIC",
                   info_.driver_name, mtu, o_.mtu));
}

void Setup::queues() {
  const int socket = rte_eth_dev_socket_id(s_.id);
  const auto node = static_cast<unsigned>(socket);  // SOCKET_ID_ANY where it isn't known
  rte_eth_rxconf rx = info_.default_rxconf;
  rx.offloads = plan_.conf.rxmode.offloads;
  rte_eth_txconf tx = info_.default_txconf;
  // Never FAST_FREE: packets are of both pools.
  tx.offloads = plan_.conf.txmode.offloads;
  for (uint16_t q = 0; q < plan_.queues; ++q) {
    check(rte_eth_rx_queue_setup(s_.id, q, rx_descs_, node, &rx, pool_), "no receive queue");
    check(rte_eth_tx_queue_setup(s_.id, q, tx_descs_, node, &tx), "no transmit queue");
  }
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

// Where one queue has none, all are looked at instead of waited for.
void Setup::interrupts() {
  for (uint16_t q = 0; q < plan_.queues; ++q) {
    Fd epoll(epoll_create1(EPOLL_CLOEXEC));
    if (epoll.get() < 0 || rte_eth_dev_rx_intr_ctl_q(s_.id, q, epoll.get(), RTE_INTR_EVENT_ADD, nullptr) != 0)
      return s_.interrupts.clear();
    // Those that needn't enable them, net_tap, have no call for it.
    if (const int rc = rte_eth_dev_rx_intr_enable(s_.id, q); rc != 0 && rc != -ENOTSUP)
      return s_.interrupts.clear();
    rte_eth_dev_rx_intr_disable(s_.id, q);
    s_.interrupts.push_back(std::move(epoll));
  }
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
    rx_descs_ = tx_descs_ = o_.descriptors;
    if (rx_descs_ > info_.rx_desc_lim.nb_max && info_.rx_desc_lim.nb_max != 0)
      rx_descs_ = info_.rx_desc_lim.nb_max;
    make_plan();
    choose_pool();
    configure();
    queues();
    check(rte_eth_dev_start(s_.id), "it doesn't start");
    check_mtu();
    flow_rules();
    if (o_.interrupts) interrupts();
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

EthdevPort::EthdevPort(Settings settings)
    : s_(std::move(settings)), queues_(std::make_unique<Queue[]>(s_.queues)) {}

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
  for (uint16_t q = 0; q < s_.interrupts.size(); ++q)
    rte_eth_dev_rx_intr_ctl_q(s_.id, q, s_.interrupts[q].get(), RTE_INTR_EVENT_DEL, nullptr);
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
