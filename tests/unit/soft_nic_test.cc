// SPDX-License-Identifier: BSD-3-Clause
// LRO and TSO through a real driver, on a NIC made of software.
#include "tests/support/soft_nic.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "pxgw/dp/gateway.h"
#include "pxio/ctl/ethdev_setup.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/tx_buffer.h"
#include "tests/support/bed.h"
#include "tests/support/nic.h"

using namespace test;
using pxio::Direction;
using pxio::PktPtr;

namespace {

std::unique_ptr<pxio::EthdevPort> open_port(const std::string& device, uint16_t merge_mtu = 9000,
                                            pxio::OffloadWishes use = {}) {
  return pxio::open_ethdev({.device = device, .mtu = 1500, .buffers = pools().buffers(), .descriptors = 256,
                            .merge_mtu = merge_mtu, .use = use});
}

const pxio::OffloadState* offload(const pxio::Port& port, const std::string& name) {
  static pxio::OffloadState found;
  for (const pxio::OffloadState& o : port.offloads())
    if (o.name == name) return found = o, &found;
  return nullptr;
}

std::vector<PktPtr> receive(pxio::Port& port, size_t want) {
  std::vector<PktPtr> r;
  for (int spent = 0; r.size() < want && spent < 10000; ++spent) {
    rte_mbuf* m[pxio::kBurst];
    const uint16_t n = port.rx_burst(0, m, pxio::kBurst);
    for (uint16_t i = 0; i < n; ++i) r.emplace_back(m[i]);
    if (n == 0) usleep(100);
  }
  return r;
}

// The frames on the wire, cut where the NIC would have done so. Checks that what the driver handed over
// is fit to be cut: the pseudo-header's sum in place of the checksum, a good IPv4 header.
std::vector<Bytes> on_wire(const std::vector<SoftNic::Sent>& sent) {
  std::vector<Bytes> r;
  for (const SoftNic::Sent& s : sent) {
    if (s.segsz == 0) {
      r.push_back(s.bytes);
      continue;
    }
    const Decoded d = decode(s.bytes);
    REQUIRE(d.tcp);
    CHECK(d.ip_ok);
    CHECK((s.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_NONE);
    uint64_t sum = pseudo_header_sum(d.version, d.src, d.dst, 6, d.l4.size());
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    CHECK((d.l4[16] << 8 | d.l4[17]) == static_cast<int>(sum));
    for (Bytes& b : cut_as_nic(s.bytes, d.l2_len, d.l3_len, 20 + d.options.size(), s.segsz)) r.push_back(std::move(b));
  }
  return r;
}

}  // namespace

TEST_CASE("Offloads: a NIC's are used, switched off by configuration, and reported", "[softnic]") {
  NoLeak guard;
  SoftNic nic;
  {
    auto port = open_port(nic.device());
    for (const char* name : {"lro", "tso", "checksum", "scatter", "multi_segment"}) {
      INFO(name);
      CHECK(offload(*port, name)->used);
      CHECK_FALSE(offload(*port, name)->how.empty());
    }
    CHECK_FALSE(offload(*port, "rss")->used);
    CHECK(offload(*port, "rss")->how == "one queue");
    CHECK(port->can_segment().able);
    CHECK(port->driver() == "net_virtio_user");
  }
  auto port = open_port(nic.device(), 9000, {.lro = false, .tso = false, .multi_segment = false});
  for (const char* name : {"lro", "tso", "multi_segment"}) {
    INFO(name);
    CHECK_FALSE(offload(*port, name)->used);
    CHECK(offload(*port, name)->how.starts_with("off by configuration"));
  }
  CHECK_FALSE(port->can_segment().able);
  CHECK(port->max_tx_segs() == UINT16_MAX);  // copied
}

TEST_CASE("Offloads: what LRO merged arrives with its segment size and a finished checksum", "[softnic][lro]") {
  NoLeak guard;
  SoftNic nic;
  auto port = open_port(nic.device());
  struct Row {
    Frame frame;
    uint16_t segsz, l2_len;
  };
  const Row rows[] = {{tcp4().ts(1, 2).data(6 * 1448), 1448, 14},
                      {tcp6().ts(1, 2).data(6 * 1428 + 5), 1428, 14},
                      {tcp4().vlan(5).data(3000), 1460, 18},
                      {tcp4().vlan(5).vlan(6).data(3000), 1460, 22},
                      {tcp4().data(100), 0, 14}};
  for (const Row& r : rows) {
    nic.deliver(r.frame, r.segsz, r.l2_len);
    const auto got = receive(*port, 1);
    REQUIRE(got.size() == 1);
    CHECK(to_bytes(*got[0]) == r.frame.bytes);
    CHECK(((got[0]->ol_flags & RTE_MBUF_F_RX_LRO) != 0) == (r.segsz != 0));
    if (r.segsz != 0) {
      CHECK(got[0]->tso_segsz == r.segsz);
      CHECK((got[0]->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD);
    }
  }
}

TEST_CASE("Offloads: a segment size beyond the packet counts as unknown", "[softnic][lro]") {
  NoLeak guard;
  SoftNic nic;
  auto port = open_port(nic.device());
  nic.deliver(tcp4().data(2000), 2100);
  const auto got = receive(*port, 1);
  REQUIRE(got.size() == 1);
  CHECK((got[0]->ol_flags & RTE_MBUF_F_RX_LRO) != 0);
  CHECK(got[0]->tso_segsz == 0);
}

TEST_CASE("Offloads: through a driver, TSO and software split put the same bytes on the wire", "[softnic][tso]") {
  NoLeak guard;
  SoftNic nic;
  const Flow flow({GENERATE(4, 6), GENERATE(0, 1, 2), true});
  std::vector<Frame> jumbos;
  for (uint32_t i = 0; i < 3; ++i)
    jumbos.push_back(flow.out(i * 8000, 8000).flags(i == 2 ? uint16_t{ACK | PSH} : uint16_t{ACK}).id(
        static_cast<uint16_t>(100 * i)).rx(RTE_MBUF_F_RX_L4_CKSUM_GOOD).cut({150, 4000}));
  jumbos.push_back(flow.out(24000, 8000).flags(ACK | CWR));  // by software, in its place
  jumbos.push_back(flow.out(32000, 500));
  std::vector<Bytes> software;
  {
    Bed bed;
    bed.open(flow);
    bed.out(jumbos);
    for (const Decoded& d : bed.outside()) software.push_back(d.frame);
  }
  auto port = open_port(nic.device());
  CollectPort inside;
  pxgw::Policy policy;
  {
    pxio::TxBuffer to_inside(inside, 0), to_outside(*port, 0);
    pxgw::Gateway gateway(policy, small_capacity(), pools().buffers(), to_inside, to_outside);
    const auto give = [&](Direction d, const Frame& f) {
      rte_mbuf* m = to_mbuf(f, pools().buffers()).release();
      gateway.process(d, &m, 1, std::chrono::seconds(1));
    };
    give(Direction::kOutbound, flow.syn());
    give(Direction::kInbound, flow.syn_ack());
    give(Direction::kOutbound, flow.third());
    to_outside.flush();
    REQUIRE(nic.sent(2).size() == 2);
    for (const Frame& f : jumbos) give(Direction::kOutbound, f);
    to_outside.flush();
    CHECK(gateway.counters().engine.split_by_port == 3);
    CHECK(gateway.counters().drop_tx_full == 0);
    const auto sent = nic.sent(3 + 6 + 1);
    CHECK(sent.size() == 3 + 6 + 1);
    const std::vector<Bytes> hardware = on_wire(sent);
    REQUIRE(hardware.size() == software.size());
    for (size_t i = 0; i < software.size(); ++i) CHECK(to_hex(hardware[i], 2000) == to_hex(software[i], 2000));
  }
  CHECK(port->stats().tx_resplit == 0);
}

TEST_CASE("Offloads: what a driver refuses to cut is cut in software, and the burst goes on", "[softnic][tso]") {
  NoLeak guard;
  SoftNic nic;
  auto port = open_port(nic.device());
  const Tcp jumbo = GENERATE(0, 1) == 0 ? tcp4().data(5000).add_flags(PSH) : tcp6().data(5000).add_flags(PSH);
  // Its headers lie in two buffers, which drivers don't take; nothing in the gateway leaves them so.
  const uint16_t l3 = jumbo.lower.version == 4 ? 20 : 40;
  rte_mbuf* burst[3];
  for (int i = 0; i < 3; ++i) {
    Tcp t = i == 1 ? jumbo : tcp4().data(100 + static_cast<size_t>(i));
    if (i == 1) t.cut({14u + l3 + 7u, 3000});
    burst[i] = to_mbuf(t, pools().buffers()).release();
  }
  burst[1]->ol_flags = RTE_MBUF_F_TX_TCP_SEG | (l3 == 20 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
  burst[1]->l2_len = 14;
  burst[1]->l3_len = l3;
  burst[1]->l4_len = 20;
  burst[1]->tso_segsz = 1400;
  REQUIRE(port->tx_burst(0, burst, 3) == 3);
  CHECK(port->stats().tx_resplit == 1);
  const auto sent = nic.sent(6);
  REQUIRE(sent.size() == 6);
  CHECK(sent[0].bytes == Frame(tcp4().data(100)).bytes);
  CHECK(sent[5].bytes == Frame(tcp4().data(102)).bytes);
  const auto want = cut_as_nic(Frame(jumbo).bytes, 14, l3, 20, 1400);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(sent[i + 1].segsz == 0);
    CHECK(to_hex(sent[i + 1].bytes, 2000) == to_hex(want[i], 2000));
  }
}

TEST_CASE("Offloads: marks that a received packet bears unasked are taken off", "[ethdev]") {
  NoLeak guard;
  auto port = pxio::open_ethdev({.device = "net_ring0", .mtu = 9000, .buffers = pools().buffers(), .descriptors = 256});
  rte_mbuf* m = to_mbuf(tcp4().data(3000), pools().buffers()).release();
  REQUIRE(port->tx_burst(0, &m, 1) == 1);
  m->ol_flags |= RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV4;  // net_ring hands the packet itself over
  m->tso_segsz = 100;
  const auto got = receive(*port, 1);
  REQUIRE(got.size() == 1);
  CHECK((got[0]->ol_flags & RTE_MBUF_F_TX_OFFLOAD_MASK) == 0);
}

TEST_CASE("Offloads: empty buffers in a received chain are dropped", "[ethdev]") {
  NoLeak guard;
  auto port = pxio::open_ethdev({.device = "net_ring0", .mtu = 9000, .buffers = pools().buffers(), .descriptors = 256});
  Frame f = tcp4().data(300);
  f.cuts = {100, 200};
  rte_mbuf* m = to_mbuf(f, pools().buffers()).release();
  for (rte_mbuf* at : {m, m->next}) {
    rte_mbuf* empty = rte_pktmbuf_alloc(pools().buffers().small);
    empty->next = at->next;
    at->next = empty;
    ++m->nb_segs;
  }
  REQUIRE(port->tx_burst(0, &m, 1) == 1);
  const auto got = receive(*port, 1);
  REQUIRE(got.size() == 1);
  CHECK(got[0]->nb_segs == 3);
  CHECK(to_bytes(*got[0]) == f.bytes);
}
