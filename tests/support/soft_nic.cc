// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/soft_nic.h"

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>

#include "pxio/ctl/eal_log.h"
#include "tests/support/decode.h"
#include "tests/support/eal.h"

namespace test {
namespace {

constexpr uint16_t kDescriptors = 256;

template <typename F>
bool within_a_second(F done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    usleep(100);
  }
  return true;
}

void must(int rc, const char* what) {
  if (rc < 0) throw std::runtime_error(std::string("software NIC: ") + what + ": " + rte_strerror(-rc));
}

}  // namespace

SoftNic::SoftNic(const std::string& options) {
  static unsigned serial = 0;
  number_ = serial++;
  name_ = "net_vhost" + std::to_string(number_);
  path_ = "/tmp/px_nic_" + std::to_string(getpid()) + "_" + std::to_string(number_) + ".sock";
  pxio::EalLog quiet;
  must(rte_dev_probe((name_ + ",iface=" + path_ + "," + options).c_str()), "no vhost device");
  must(rte_eth_dev_get_port_by_name(name_.c_str(), &id_), "no vhost port");
  rte_eth_dev_info info{};
  must(rte_eth_dev_info_get(id_, &info), "no information");
  rte_eth_conf conf{};
  conf.rxmode.offloads = info.rx_offload_capa & (RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM);
  conf.txmode.offloads = info.tx_offload_capa;
  must(rte_eth_dev_configure(id_, 1, 1, &conf), "configure");
  must(rte_eth_rx_queue_setup(id_, 0, kDescriptors, SOCKET_ID_ANY, nullptr, pools().buffers().small), "rx");
  must(rte_eth_tx_queue_setup(id_, 0, kDescriptors, SOCKET_ID_ANY, nullptr), "tx");
  must(rte_eth_dev_start(id_), "start");
}

SoftNic::~SoftNic() {
  pxio::EalLog quiet;
  rte_eth_dev_info info{};
  rte_eth_dev_info_get(id_, &info);
  rte_eth_dev_stop(id_);
  rte_eth_dev_close(id_);
  rte_dev_remove(info.device);
  unlink(path_.c_str());
}

std::string SoftNic::device(const std::string& options) const {
  return "net_virtio_user" + std::to_string(number_) + ",path=" + path_ + ",queue_size=256" + options;
}

void SoftNic::deliver(const Frame& frame, uint16_t segsz, uint16_t l2_len) {
  rte_mbuf* m = to_mbuf(frame, pools().buffers()).release();
  if (segsz != 0) {
    const bool v4 = frame.bytes[l2_len] >> 4 == 4;
    m->ol_flags = RTE_MBUF_F_TX_TCP_SEG | (v4 ? RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM : RTE_MBUF_F_TX_IPV6);
    m->l2_len = l2_len;
    m->l3_len = v4 ? 20 : 40;
    m->l4_len = static_cast<uint64_t>(frame.bytes[size_t{l2_len} + m->l3_len + 12] >> 4) * 4;
    m->tso_segsz = segsz;
  }
  // The peer sets its rings up in a thread of its own.
  if (!within_a_second([&] { return rte_eth_tx_burst(id_, 0, &m, 1) == 1; })) {
    rte_pktmbuf_free(m);
    throw std::runtime_error("software NIC: the port takes nothing");
  }
}

std::vector<SoftNic::Sent> SoftNic::sent(size_t want) {
  std::vector<Sent> r;
  within_a_second([&] {
    rte_mbuf* m[32];
    const uint16_t n = rte_eth_rx_burst(id_, 0, m, 32);
    for (uint16_t i = 0; i < n; ++i) {
      const bool uncut = (m[i]->ol_flags & RTE_MBUF_F_RX_LRO) != 0;
      r.push_back({to_bytes(*m[i]), m[i]->ol_flags, static_cast<uint16_t>(uncut ? m[i]->tso_segsz : 0)});
      rte_pktmbuf_free(m[i]);
    }
    return r.size() >= want;
  });
  return r;
}

}  // namespace test
