// SPDX-License-Identifier: BSD-3-Clause
// The emulated NIC and its driver, net_virtio_user, in one process.
#include "bench/nic/nic.h"

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "pxio/ctl/eal_log.h"
#include "tests/support/checks.h"
#include "tests/support/eal.h"
#include "tests/support/flow.h"

using namespace test;

namespace {

pxio::Nanos now() { return std::chrono::steady_clock::now().time_since_epoch(); }

std::string socket_path() { return "/tmp/px_nic_unit_" + std::to_string(getpid()) + ".sock"; }

template <typename F>
void wait_until(F done) {
  const auto end = now() + std::chrono::seconds(5);
  while (!done()) {
    REQUIRE(now() < end);
    usleep(100);
  }
}

// A plain DPDK program at the NIC.
class Driver {
 public:
  explicit Driver(uint16_t queues = 1, bool lro = true) {
    pxio::EalLog quiet;
    const std::string device = "net_virtio_user7,path=" + socket_path() +
                               ",queue_size=256,queues=" + std::to_string(queues);
    REQUIRE(rte_dev_probe(device.c_str()) == 0);
    REQUIRE(rte_eth_dev_get_port_by_name("net_virtio_user7", &id_) == 0);
    rte_eth_conf conf{};
    if (lro) conf.rxmode.offloads = RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_SCATTER;
    conf.txmode.offloads =
        RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    REQUIRE(rte_eth_dev_configure(id_, queues, queues, &conf) == 0);
    for (uint16_t q = 0; q < queues; ++q) {
      REQUIRE(rte_eth_rx_queue_setup(id_, q, 256, SOCKET_ID_ANY, nullptr,
                                     pools().buffers().small) == 0);
      REQUIRE(rte_eth_tx_queue_setup(id_, q, 256, SOCKET_ID_ANY, nullptr) == 0);
    }
    REQUIRE(rte_eth_dev_start(id_) == 0);
  }
  ~Driver() {
    pxio::EalLog quiet;
    rte_eth_dev_info info{};
    rte_eth_dev_info_get(id_, &info);
    rte_eth_dev_stop(id_);
    rte_eth_dev_close(id_);
    rte_dev_remove(info.device);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Sends; where `segsz` is given the NIC is to cut it.
  void send(const Frame& f, uint16_t segsz = 0) {
    rte_mbuf* m = to_mbuf(f, pools().buffers()).release();
    if (segsz != 0) {
      const Decoded d = decode(f.bytes);
      m->ol_flags = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_TCP_CKSUM |
                    (d.version == 4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
      m->l2_len = d.l2_len;
      m->l3_len = d.l3_len;
      m->l4_len = 20 + d.options.size();
      m->tso_segsz = segsz;
    }
    REQUIRE(rte_eth_tx_prepare(id_, 0, &m, 1) == 1);
    REQUIRE(rte_eth_tx_burst(id_, 0, &m, 1) == 1);
  }

  struct Received {
    Decoded packet;
    bool lro;
    uint16_t segsz, queue;
  };
  std::vector<Received> receive(uint16_t queues = 1) {
    std::vector<Received> r;
    for (uint16_t q = 0; q < queues; ++q) {
      rte_mbuf* m[32];
      const uint16_t n = rte_eth_rx_burst(id_, q, m, 32);
      for (uint16_t i = 0; i < n; ++i) {
        r.push_back({decode(to_bytes(*m[i])), (m[i]->ol_flags & RTE_MBUF_F_RX_LRO) != 0,
                     static_cast<uint16_t>(m[i]->tso_segsz), q});
        rte_pktmbuf_free(m[i]);
      }
    }
    return r;
  }

 private:
  uint16_t id_ = 0;
};

struct Rig {
  explicit Rig(uint16_t queues = 1)
      : port("net_vhost_unit", socket_path(), queues, pools().buffers().small),
        nic({}, port, pools().buffers().small, [this](softnic::Frame f) {
          wire.push_back(decode(Bytes(f.begin(), f.end())));
          return true;
        }) {}
  void wait_for_driver(uint16_t queues = 1) {
    wait_until([&] { return nic.poll(now()), port.queues() == queues; });
  }
  void wait_for_wire(size_t n) {
    wait_until([&] { return nic.poll(now()), wire.size() >= n; });
  }
  softnic::VhostPort port;
  softnic::Nic nic;
  std::vector<Decoded> wire;
};

}  // namespace

TEST_CASE(
    "NIC: its driver gets merged packets with mark and exact segment size, and sends uncut ones",
    "[nic]") {
  NoLeak guard;
  for (int version : {4, 6}) {
    const Flow flow({version, 0, true});
    Rig rig;
    Driver driver;
    rig.wait_for_driver();
    REQUIRE(rig.port.lro());
    std::vector<Tcp> parts;
    for (uint32_t i = 0; i < 6; ++i) parts.push_back(flow.in(i * flow.full(), flow.full()));
    for (const Tcp& t : parts) rig.nic.from_wire(t.build().bytes, now());
    std::vector<Driver::Received> got;
    wait_until([&] {
      rig.nic.poll(now());
      for (auto& r : driver.receive()) got.push_back(r);
      return !got.empty();
    });
    REQUIRE(got.size() == 1);
    CHECK(got[0].lro);
    CHECK(got[0].segsz == flow.full());
    check_merged(got[0].packet, parts, false);

    Tcp jumbo = flow.out(0, flow.jumbo());
    jumbo.add_flags(PSH).id(100);
    driver.send(jumbo, flow.full());
    rig.wait_for_wire(7);
    check_split(rig.wire, jumbo, flow.full());

    driver.send(flow.out(0, 100));
    rig.wait_for_wire(8);
    CHECK(rig.wire[7].frame == flow.out(0, 100).build().bytes);
    rig.nic.drain();
    CHECK(softnic::unaccounted(rig.nic.counters()) == 0);
  }
}

TEST_CASE("NIC: frames above the wire's MTU are dropped and counted, either way", "[nic]") {
  NoLeak guard;
  const Flow flow({4, 1, true});
  Rig rig;
  Driver driver;
  rig.wait_for_driver();
  driver.send(flow.out(0, 1448));
  driver.send(flow.out(1448, 1449));
  driver.send(flow.out(0, 5000), 1449);  // three too large, and the rest
  rig.wait_for_wire(2);
  CHECK(rig.wire[0].ip_len == 1500);
  CHECK(rig.wire[1].payload.size() == 5000 - 3 * 1449);
  CHECK(rig.nic.counters().wire_too_big == 4);
  rig.nic.from_wire(flow.in(0, 1449).build().bytes, now());
  CHECK(rig.nic.counters().rx_bad == 1);
  rig.nic.drain();
  CHECK(softnic::unaccounted(rig.nic.counters()) == 0);
}

TEST_CASE("NIC: what a host left uncut is cut to the wire first", "[nic]") {
  NoLeak guard;
  const Flow flow;
  Rig rig;
  Driver driver(1, false);
  rig.wait_for_driver();
  CHECK_FALSE(rig.port.lro());
  const Tcp burst = flow.in(0, 20000).add_flags(PSH);
  rig.nic.from_wire_uncut(burst.build().bytes, flow.full(), now());
  rig.nic.from_wire_uncut(udp(Lower{}, 1, 2, 3000).bytes, 1000, now());
  std::vector<Decoded> got;
  wait_until([&] {
    rig.nic.poll(now());
    for (auto& r : driver.receive()) got.push_back(r.packet);
    return got.size() >= 14;
  });
  check_split(got, burst, flow.full());
  CHECK(rig.nic.counters().rx_bad == 1);
  CHECK(softnic::unaccounted(rig.nic.counters()) == 0);
}

TEST_CASE("NIC: both directions of a flow use the same queue, merged or not", "[nic]") {
  NoLeak guard;
  Rig rig(2);
  Driver driver(2);
  rig.wait_for_driver(2);
  const auto both = [](uint16_t n) { return Flow({n % 2 == 0 ? 4 : 6, 0, true}, n); };
  std::map<uint32_t, std::vector<uint16_t>> queues;
  size_t all = 0, first = 0, merged = 0;
  const auto take = [&] {
    rig.nic.poll(now());
    for (auto& r : driver.receive(2)) {
      queues[uint32_t{r.packet.sport} + r.packet.dport].push_back(r.queue);
      ++all;
      first += r.queue == 0;
      merged += r.lro;
    }
  };
  for (uint16_t n = 1; n <= 32; ++n) {
    rig.nic.from_wire(both(n).out(0, 0).build().bytes, now());
    for (const Frame& f : both(n).run(0, 6)) rig.nic.from_wire(f.bytes, now());
    take();
  }
  wait_until([&] { return take(), all == 64; });
  for (const auto& [flow, q] : queues) {
    REQUIRE(q.size() == 2);
    CHECK(q[0] == q[1]);
  }
  CHECK(merged == 32);
  CHECK(first > 8);
  CHECK(first < 56);
}

TEST_CASE("NIC: drivers come and go; without one frames are dropped and counted", "[nic]") {
  NoLeak guard;
  const Frame f = Flow().in(0, 100);
  Rig rig;
  for (int i = 0; i < 2; ++i) {
    rig.wait_for_driver(0);
    rig.nic.from_wire(f.bytes, now());
    rig.nic.drain();
    CHECK(rig.nic.counters().host_out_down == static_cast<uint64_t>(i + 1));
    Driver driver;
    rig.wait_for_driver();
    rig.nic.from_wire(f.bytes, now());
    wait_until([&] { return rig.nic.poll(now()), driver.receive().size() == 1; });
  }
  rig.nic.drain();
  CHECK(softnic::unaccounted(rig.nic.counters()) == 0);
}

TEST_CASE("NIC: a driver that takes nothing makes the wire wait, and loses nothing", "[nic]") {
  NoLeak guard;
  const Flow flow;
  Rig rig;
  Driver driver;
  rig.wait_for_driver();
  uint32_t sent = 0;
  wait_until([&] {
    for (; rig.nic.ready() && sent < 4000; ++sent)
      rig.nic.from_wire(flow.in(sent * 100, 100).flags(ACK | FIN).build().bytes, now());
    rig.nic.poll(now());
    return !rig.nic.ready();
  });
  uint32_t got = 0;
  wait_until([&] {
    for (auto& r : driver.receive()) {
      CHECK(r.packet.seq == flow.in(got * 100, 100).seq_no);
      ++got;
    }
    rig.nic.poll(now());
    return got == sent;
  });
  CHECK(rig.nic.counters().host_full > 0);
  CHECK(softnic::unaccounted(rig.nic.counters()) == 0);
}

TEST_CASE("NIC: a socket that can't be had is refused in one line", "[nic]") {
  NoLeak guard;
  using Catch::Contains;
  const auto why_not = [](const std::string& socket) -> std::string {
    try {
      softnic::VhostPort port("net_vhost_unit2", socket, 1, pools().buffers().small);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "opened";
  };
  CHECK_THAT(why_not("/nosuch/dir/x.sock"),
             Contains("/nosuch/dir/x.sock") && Contains("No such file"));
  CHECK_THAT(why_not(std::string(200, 'x')), Contains("characters"));
  CHECK_THAT(why_not("/tmp/a,b"), Contains("comma"));
  {
    Rig rig;
    CHECK_THAT(why_not(socket_path()), Contains("another process listens"));
  }
  { std::ofstream other(socket_path()); }
  CHECK_THAT(why_not(socket_path()), Contains("isn't a socket"));
  CHECK(access(socket_path().c_str(), F_OK) == 0);
  unlink(socket_path().c_str());
}
