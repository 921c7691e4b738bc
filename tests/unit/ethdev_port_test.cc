// SPDX-License-Identifier: BSD-3-Clause
// EthdevPort on DPDK's virtual devices that need no rights.
#include "pxio/dp/ethdev_port.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "pxio/ctl/ethdev_setup.h"
#include "pxio/dp/tx_buffer.h"
#include "tests/support/builder.h"
#include "tests/support/decode.h"
#include "tests/support/eal.h"
#include "tests/support/port_event.h"

using namespace test;
using pxio::PktPtr;

namespace {

std::unique_ptr<pxio::EthdevPort> open_port(const std::string& device, uint16_t mtu = 9000,
                                            uint16_t queues = 1, uint16_t descriptors = 256) {
  return pxio::open_ethdev({device, queues, mtu, pools().buffers(), descriptors});
}

std::string why_not(const std::string& device, uint16_t mtu = 9000, uint16_t queues = 1,
                    uint16_t descriptors = 256) {
  try {
    open_port(device, mtu, queues, descriptors);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "opened";
}

}  // namespace

TEST_CASE("EthdevPort: what is sent through a ring comes back, chained or not", "[ethdev]") {
  NoLeak guard;
  auto port = open_port("net_ring0");
  Frame whole = tcp4().data(8960), chained = tcp6().data(5000);
  chained.cuts = {60, 61, 3000};
  for (const Frame& f : {whole, chained}) {
    rte_mbuf* m = to_mbuf(f, pools().buffers()).release();
    REQUIRE(port->tx_burst(0, &m, 1) == 1);
    REQUIRE(port->rx_burst(0, &m, 1) == 1);
    CHECK(to_bytes(*m) == f.bytes);
    PktPtr(m).reset();
  }
  CHECK(port->stats().rx_pkts == 2);
  CHECK(port->wait_fd(0) == -1);
}

TEST_CASE("EthdevPort: closing gives back what still waits, and the device can be opened again", "[ethdev]") {
  NoLeak guard;
  for (int i = 0; i < 3; ++i) {
    auto port = open_port("net_ring0", 1500, 2);
    CHECK(port->queues() == 1);  // it has no RSS: fanned out where there are two workers
    for (int k = 0; k < 2; ++k) {
      rte_mbuf* m = to_mbuf(tcp4().data(100), pools().buffers()).release();
      REQUIRE(port->tx_burst(0, &m, 1) == 1);
    }
  }
}

TEST_CASE("EthdevPort: a NIC that was reset is noticed, and goes on when it is started anew", "[ethdev]") {
  NoLeak guard;
  auto port = open_port("net_ring0");
  CHECK(port->health() == pxio::Health::kGood);
  const Frame f = tcp4().data(1000);
  for (int k = 0; k < 3; ++k) {
    rte_mbuf* m = to_mbuf(f, pools().buffers()).release();
    REQUIRE(port->tx_burst(0, &m, 1) == 1);
    REQUIRE(port->rx_burst(0, &m, 1) == 1);
    CHECK(to_bytes(*m) == f.bytes);
    PktPtr(m).reset();
    REQUIRE(raise_event("net_ring0", RTE_ETH_EVENT_INTR_RESET));
    CHECK(port->health() == pxio::Health::kReset);
    port->restart();
    CHECK(port->health() == pxio::Health::kGood);
  }
  REQUIRE(raise_event("net_ring0", RTE_ETH_EVENT_INTR_RMV));
  CHECK(port->health() == pxio::Health::kGone);
}

TEST_CASE("EthdevPort: a full ring takes no more; too long a frame is dropped and counted", "[ethdev]") {
  NoLeak guard;
  auto port = open_port("net_ring0", 1500);
  {
    pxio::TxBuffer tx(*port, 0);
    tx.push(to_mbuf(tcp4().data(100), pools().buffers()));
    tx.push(to_mbuf(tcp4().data(3000), pools().buffers()));
    tx.push(to_mbuf(tcp4().data(200), pools().buffers()));
    tx.flush();
    CHECK(port->stats().tx_too_big == 1);
    CHECK(port->stats().tx_pkts == 2);
    for (int i = 0; i < 3000; ++i) tx.push(to_mbuf(tcp4().data(10), pools().buffers()));
    tx.flush();
    CHECK(tx.dropped_full() > 0);
  }
}

TEST_CASE("EthdevPort: what another port merged and nobody split leaves as it was merged from", "[ethdev]") {
  NoLeak guard;
  auto port = open_port("net_ring0", 1500);
  pxio::TxBuffer tx(*port, 0);
  Frame f = tcp6().data(10 * 1200 + 5).rx(RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD, 1200);
  f.cuts = {1500, 9000};
  f.bytes.insert(f.bytes.begin() + 54, {6, 0, 1, 4, 0, 0, 0, 0});  // destination options
  f.bytes[20] = 60;
  f.bytes[19] = static_cast<uint8_t>(f.bytes[19] + 8);
  tx.push(to_mbuf(f, pools().buffers()));
  f.ol_flags = RTE_MBUF_F_RX_LRO;  // without a verdict it might be damaged
  tx.push(to_mbuf(f, pools().buffers()));
  tx.flush();
  rte_mbuf* m[32];
  const uint16_t n = port->rx_burst(0, m, 32);
  CHECK(n == 11);
  for (uint16_t i = 0; i < n; ++i) {
    const PktPtr p(m[i]);
    CHECK(p->pkt_len == 14u + 40 + 8 + 20 + (i < 10 ? 1200 : 5));
  }
  CHECK(port->stats().tx_too_big == 1);
}

TEST_CASE("EthdevPort: datagrams that another port merged leave one by one, however small they are together", "[ethdev]") {
  NoLeak guard;
  auto port = open_port("net_ring0", 9000);
  pxio::TxBuffer tx(*port, 0);
  const bool v6 = GENERATE(false, true);
  const size_t payload = GENERATE(601, 3000, 8000, 40'000);
  const Lower lower = v6 ? tcp6().lower : Lower{};
  Frame f = udp(lower, 5, 6, payload);
  f.ol_flags = RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  f.segsz = 600;
  f.cuts = {200, 9000, 18'000, 27'000, 36'000};
  tx.push(to_mbuf(f, pools().buffers()));
  Frame one = udp(lower, 5, 6, 500);  // so marked by a port, but not several
  one.ol_flags = f.ol_flags;
  one.segsz = 600;
  tx.push(to_mbuf(one, pools().buffers()));
  tx.flush();
  std::array<rte_mbuf*, 128> m;
  const uint16_t n = port->rx_burst(0, m.data(), m.size());
  REQUIRE(n == (payload + 599) / 600 + 1);
  Bytes got;
  for (uint16_t i = 0; i < n; ++i) {
    const PktPtr p(m[i]);
    const Decoded d = decode(to_bytes(*p));
    CHECK(d.proto == 17);
    CHECK(d.checksum_ok);
    CHECK(d.ip_ok);
    CHECK(p->pkt_len == d.l4.size() + (v6 ? 54 : 34));
    CHECK(d.l4.size() == 8 + (i + 1 == n ? 500 : std::min<size_t>(600, payload - got.size())));
    if (i + 1 != n) got.insert(got.end(), d.l4.begin() + 8, d.l4.end());
  }
  const Bytes l4 = decode(f.bytes).l4;
  CHECK((got == Bytes(l4.begin() + 8, l4.end())));
  CHECK(port->stats().tx_too_big == 0);
}

TEST_CASE("EthdevPort: a driver without chains gets copies", "[ethdev]") {
  NoLeak guard;
  const std::string path = "/tmp/px_ethdev_" + std::to_string(getpid()) + ".pcap";
  Frame f = tcp4().data(8960);
  f.cuts = {100, 2000, 4000};
  {
    auto port = open_port("net_pcap0,tx_pcap=" + path);
    rte_mbuf* m = to_mbuf(f, pools().buffers()).release();
    REQUIRE(port->tx_burst(0, &m, 1) == 1);
    CHECK(port->stats().tx_errors == 0);
  }
  std::ifstream file(path, std::ios::binary);
  const Bytes b((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::remove(path.c_str());
  REQUIRE(b.size() == 24 + 16 + f.bytes.size());
  CHECK(Bytes(b.begin() + 40, b.end()) == f.bytes);
}

TEST_CASE("EthdevPort: what can't be opened says why", "[ethdev]") {
  NoLeak guard;
  using Catch::Contains;
  CHECK_THAT(why_not("net_nosuch0"), Contains("port net_nosuch0: DPDK can't attach it"));
  CHECK_THAT(why_not("0000:ff:00.0"), Contains("port 0000:ff:00.0") && Contains("vfio-pci"));
  CHECK_THAT(why_not("net_ring0", 9000, 1, 32768), Contains("need as many buffers"));
  CHECK_THAT(why_not("net_pcap0,tx_pcap=/dev/null", 9700), Contains("9722") && Contains("9600"));
  CHECK(why_not("net_ring0", 9000) == "opened");
}
