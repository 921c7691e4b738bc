// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/ctl/ethdev_setup.h"

#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include "pxio/ctl/eal_log.h"

namespace pxio {
namespace {

// Ethernet header and two VLAN tags.
constexpr uint32_t kLinkHeader = 14 + 8;
// Toeplitz with this key gives both directions of a flow the same hash.
constexpr uint8_t kSymmetricKey[2] = {0x6d, 0x5a};

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
  bool driver_is(const char* driver) const { return std::strcmp(info_.driver_name, driver) == 0; }
  void warn(const std::string& text) { s_.warnings.push_back(fmt::format("port {}: {}", name_, text)); }

  void attach();
  void check_limits();
  void choose_pool();
  void check_af_packet();
  void warn_of_driver();
  void configure();
  void queues();

  const EthdevOptions& o_;
  const std::string name_;
  EalLog log_;
  EthdevPort::Settings s_;
  rte_eth_dev_info info_{};
  rte_eth_conf conf_{};
  std::array<uint8_t, 64> key_{};
  rte_mempool* pool_ = nullptr;
  uint16_t rx_descs_ = 0, tx_descs_ = 0;
};

uint32_t room(const rte_mempool* pool) {
  return rte_pktmbuf_data_room_size(const_cast<rte_mempool*>(pool)) - uint32_t{RTE_PKTMBUF_HEADROOM};
}

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
  if (o_.queues == 0 || o_.queues > info_.max_rx_queues || o_.queues > info_.max_tx_queues) {
    fail(fmt::format("{} queues asked for, its driver {} has {} for receiving and {} for sending{}",
                     o_.queues, info_.driver_name, info_.max_rx_queues, info_.max_tx_queues,
                     driver_is("net_af_packet") ? "; add qpairs= to the device's arguments" : ""));
  }
  if (driver_is("net_af_packet")) return;  // says 1500 and takes what its frames hold
  const bool known = info_.max_mtu != UINT16_MAX && info_.max_rx_pktlen > info_.max_mtu;
  const uint32_t overhead = known ? info_.max_rx_pktlen - info_.max_mtu : 18;
  const uint32_t most = std::min<uint32_t>(info_.max_mtu, info_.max_rx_pktlen - overhead);
  if (o_.mtu > most) {
    fail(fmt::format("an MTU of {} is configured, its driver {} takes at most {}{}", o_.mtu,
                     info_.driver_name, most,
                     driver_is("net_tap") || driver_is("net_af_xdp")
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
  if (room(pool_) < frame - 32) pool_ = o_.buffers.large;
  if (room(pool_) < frame - 32)
    fail(fmt::format("framesz={} needs buffers of {} B, there are {} B; use a smaller one", frame,
                     frame - 32, room(pool_)));
}

void Setup::choose_pool() {
  const uint32_t frame = o_.mtu + kLinkHeader;
  pool_ = frame <= room(o_.buffers.small) ? o_.buffers.small : o_.buffers.large;
  if (driver_is("net_af_packet")) check_af_packet();
  if (info_.min_rx_bufsize > room(pool_)) pool_ = o_.buffers.large;
  if (frame > room(pool_)) {
    if ((info_.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) == 0) {
      fail(fmt::format("frames of {} B don't fit buffers of {} B, and its driver {} can't use several; "
                       "lower the MTU to {}",
                       frame, room(pool_), info_.driver_name, room(pool_) - kLinkHeader));
    }
    conf_.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
  }
  const uint32_t need = uint32_t{o_.queues} * rx_descs_;
  const uint32_t have = rte_mempool_avail_count(pool_);
  if (need >= have) {
    fail(fmt::format("{} receive descriptors ({} queues of {}) need as many buffers, {} of the {} kind are "
                     "left; raise the number of buffers, or lower that of descriptors",
                     need, o_.queues, rx_descs_, have, pool_ == o_.buffers.small ? "small" : "large"));
  }
}

void Setup::warn_of_driver() {
  if (driver_is("net_af_packet")) {
    warn("net_af_packet never delivers IPv4 fragments, cuts what the kernel's GRO or GSO merged, receives "
         "frames that the host itself sends, and makes any outer VLAN tag one of type 0x8100; the kernel "
         "interface itself as a port has none of these limits");
  } else if (driver_is("net_tap")) {
    warn("net_tap sends nothing longer than 1500 B");
  } else if (driver_is("net_af_xdp")) {
    warn("net_af_xdp takes nothing longer than 3.5 KB");
  }
  if (o_.queues > 1 && conf_.rx_adv_conf.rss_conf.rss_hf == 0)
    warn(fmt::format("its driver {} doesn't tell how it shares traffic between {} queues: both directions "
                     "of a flow may meet different workers",
                     info_.driver_name, o_.queues));
}

void Setup::configure() {
  conf_.rxmode.mtu = driver_is("net_af_packet") ? 0 : o_.mtu;
  constexpr uint64_t kChecks =
      RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
  conf_.rxmode.offloads |= info_.rx_offload_capa & kChecks;
  conf_.txmode.offloads = info_.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  s_.checks = (conf_.rxmode.offloads & kChecks) != 0;
  s_.max_segs = 1;
  if (conf_.txmode.offloads != 0) {
    const uint16_t most = info_.tx_desc_lim.nb_mtu_seg_max;
    s_.max_segs = most == 0 ? UINT16_MAX : most;
  }
  if (o_.queues > 1) {
    rte_eth_rss_conf& rss = conf_.rx_adv_conf.rss_conf;
    rss.rss_hf = info_.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP);
    if (rss.rss_hf != 0) {
      conf_.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
      for (size_t i = 0; i < key_.size(); ++i) key_[i] = kSymmetricKey[i % 2];
      rss.rss_key = key_.data();
      rss.rss_key_len = info_.hash_key_size != 0 ? std::min<uint8_t>(info_.hash_key_size, key_.size()) : 40;
    }
  }
  check(rte_eth_dev_configure(s_.id, o_.queues, o_.queues, &conf_), "it can't be configured");
  check(rte_eth_dev_adjust_nb_rx_tx_desc(s_.id, &rx_descs_, &tx_descs_), "no rings of this size");
}

void Setup::queues() {
  const int socket = rte_eth_dev_socket_id(s_.id);
  const auto node = static_cast<unsigned>(socket);  // SOCKET_ID_ANY where it isn't known
  rte_eth_rxconf rx = info_.default_rxconf;
  rx.offloads = conf_.rxmode.offloads;
  rte_eth_txconf tx = info_.default_txconf;
  // Never FAST_FREE: packets are of both pools.
  tx.offloads = conf_.txmode.offloads;
  for (uint16_t q = 0; q < o_.queues; ++q) {
    check(rte_eth_rx_queue_setup(s_.id, q, rx_descs_, node, &rx, pool_), "no receive queue");
    check(rte_eth_tx_queue_setup(s_.id, q, tx_descs_, node, &tx), "no transmit queue");
  }
}

std::unique_ptr<EthdevPort> Setup::run() {
  attach();
  s_.name = name_;
  s_.queues = o_.queues;
  s_.buffers = o_.buffers;
  s_.max_frame = o_.mtu + kLinkHeader;
  try {
    check(rte_eth_dev_info_get(s_.id, &info_), "no information");
    check_limits();
    rx_descs_ = tx_descs_ = o_.descriptors;
    if (rx_descs_ > info_.rx_desc_lim.nb_max && info_.rx_desc_lim.nb_max != 0)
      rx_descs_ = info_.rx_desc_lim.nb_max;
    choose_pool();
    configure();
    queues();
    warn_of_driver();
    check(rte_eth_dev_start(s_.id), "it doesn't start");
    if (const int rc = rte_eth_promiscuous_enable(s_.id); rc < 0)
      warn(fmt::format("no promiscuous mode ({}): frames to other addresses may be lost", rte_strerror(-rc)));
  } catch (...) {
    s_.queues = 0;
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
  rte_eth_dev_info info{};
  const bool known = rte_eth_dev_info_get(s_.id, &info) == 0;
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
  }
  return r;
}

}  // namespace pxio
