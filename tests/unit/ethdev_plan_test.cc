// SPDX-License-Identifier: BSD-3-Clause
// How ports are set up, for NICs that this machine doesn't have: from what their drivers say of
// themselves in DPDK 22.11.
#include "pxio/ctl/ethdev_plan.h"

#include <rte_thash.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/builder.h"

using namespace pxio;

namespace {

constexpr uint64_t kChecks = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
constexpr uint64_t kLro = RTE_ETH_RX_OFFLOAD_TCP_LRO, kScatter = RTE_ETH_RX_OFFLOAD_SCATTER;
constexpr uint64_t kChains = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
constexpr uint64_t kTso = RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;

struct Nic {
  const char* driver;
  uint64_t rx, tx;
  uint32_t max_lro;
  uint16_t seg_max, mtu_seg_max;
};
constexpr Nic kMlx5{"mlx5_pci", kChecks | kLro | kScatter, kTso | kChains | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE, 65280, 40, 40};
constexpr Nic kI40e{"net_i40e", kChecks | kScatter, kTso | kChains | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE, 0, 255, 8};
constexpr Nic kIce{"net_ice", kChecks | kScatter, kTso | kChains, 0, 4096, 8};
constexpr Nic kIxgbe{"net_ixgbe", kChecks | kLro | kScatter, kTso | kChains, 0, 40, 40};
constexpr Nic kBnxt{"net_bnxt", kChecks | kLro | kScatter, kTso | kChains, 0, 0, 0};
constexpr Nic kQede{"net_qede", kChecks | kLro | kScatter, kTso | kChains, 0, 255, 18};
constexpr Nic kHns3{"net_hns3", kChecks | kLro | kScatter, kTso | kChains, 64512, 63, 8};
constexpr Nic kHinic{"net_hinic", kChecks | kLro | kScatter, kTso | kChains, 65536, 0, 0};
constexpr Nic kVirtio{"net_virtio", kLro | kScatter | RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM,
                      kChains | RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_TCP_CKSUM, 0, 65535, 65535};
constexpr Nic kEna{"net_ena", kChecks | kScatter, kTso | kChains, 0, 17, 17};
constexpr Nic kGve{"net_gve", kLro, kTso | kChains, 0, 0, 0};
constexpr Nic kBare{"net_bare", 0, 0, 0, 0, 0};
constexpr Nic kAll[] = {kMlx5, kI40e, kIce, kIxgbe, kBnxt, kQede, kHns3, kHinic, kVirtio, kEna, kGve, kBare};

struct Wish {
  uint16_t mtu = 1500, merge_mtu = 9000, queues = 1;
  uint32_t small = 2048, large = 9600;
  OffloadWishes use = {};
};

EthdevPlan plan(const Nic& nic, const Wish& w = {}) {
  rte_eth_dev_info info{};
  info.driver_name = nic.driver;
  info.rx_offload_capa = nic.rx;
  info.tx_offload_capa = nic.tx;
  info.max_lro_pkt_size = nic.max_lro;
  info.tx_desc_lim.nb_seg_max = nic.seg_max;
  info.tx_desc_lim.nb_mtu_seg_max = nic.mtu_seg_max;
  info.flow_type_rss_offloads = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
  info.hash_key_size = 52;
  info.max_rx_queues = info.max_tx_queues = 16;
  return plan_ethdev({info, quirks_of(nic.driver), w.queues, w.mtu, w.merge_mtu, w.small, w.large, w.use});
}

std::string refusal(const Nic& nic, const Wish& w) {
  try {
    plan(nic, w);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

OffloadState state(const EthdevPlan& p, const std::string& name) {
  for (const OffloadState& o : p.offloads)
    if (o.name == name) return o;
  FAIL("no word of " << name);
  return {};
}
uint64_t rx(const EthdevPlan& p) { return p.conf.rxmode.offloads; }
uint64_t tx(const EthdevPlan& p) { return p.conf.txmode.offloads; }

}  // namespace

TEST_CASE("Offloads: mlx5 merges six segments into 9000 B, however its firmware counts", "[plan]") {
  const EthdevPlan p = plan(kMlx5);
  const uint32_t cap = p.conf.rxmode.max_lro_pkt_size;
  CHECK(cap >= 9022);
  CHECK(cap <= 9215);
  CHECK((rx(p) & kLro) != 0);
  CHECK(p.large_buffers);  // one each
  CHECK((rx(p) & kScatter) == 0);
  CHECK_FALSE(p.receive.keeps_segment_size);
  CHECK(p.receive.bad_behind_other_headers);
  // Blocks of 256 B behind 62 B of headers, or of the whole frame: as many segments as the MTU holds, and
  // never a packet that exceeds it.
  for (uint16_t mtu : {3500, 4000, 4352, 8000, 8996, 9000, 9216, 9500}) {
    const uint32_t c = plan(kMlx5, {.merge_mtu = mtu}).conf.rxmode.max_lro_pkt_size;
    INFO(mtu << ": " << c);
    const uint32_t from_l4 = (c - 62) / 256 * 256, from_l2 = c / 256 * 256;
    CHECK(from_l4 == from_l2);
    CHECK(from_l4 + 40 <= mtu);
    CHECK(from_l4 + 40 + 256 > mtu);
    CHECK(from_l2 - 14 <= mtu);
  }
  // Where two segments don't fit there is nothing to merge.
  CHECK((rx(plan(kMlx5, {.merge_mtu = 2900})) & kLro) == 0);
}

TEST_CASE("Offloads: what can limit LRO does, what can't gets chains and is cut again", "[plan]") {
  CHECK(plan(kHinic).conf.rxmode.max_lro_pkt_size == 9014);
  CHECK(plan(kHns3).conf.rxmode.max_lro_pkt_size == 64512);  // the API wants one in its range
  for (const Nic& nic : {kIxgbe, kBnxt, kQede, kVirtio}) {
    INFO(nic.driver);
    const EthdevPlan p = plan(nic);
    CHECK((rx(p) & kLro) != 0);
    CHECK((rx(p) & kScatter) != 0);
    CHECK(p.conf.rxmode.max_lro_pkt_size == 0);  // anything else is refused
    CHECK_FALSE(p.large_buffers);
  }
  CHECK(plan(kIxgbe).receive.merged_by_length);
  CHECK_FALSE(plan(kBnxt).receive.keeps_segment_size);
  CHECK(plan(kVirtio).receive.keeps_segment_size);
  CHECK(plan(kVirtio).receive.none_is_partial);
  CHECK_FALSE(plan(kIce).receive.none_is_partial);
}

TEST_CASE("Offloads: LRO isn't used where it can't be, and the report says why", "[plan]") {
  const auto why = [](const Nic& nic, const Wish& w = {}) {
    const EthdevPlan p = plan(nic, w);
    CHECK((rx(p) & kLro) == 0);
    CHECK(p.conf.rxmode.max_lro_pkt_size == 0);
    CHECK_FALSE(state(p, "lro").used);
    return state(p, "lro").how;
  };
  using Catch::Contains;
  CHECK_THAT(why(kI40e), Contains("net_i40e has none"));
  CHECK_THAT(why(kGve), Contains("nothing behind it"));
  CHECK_THAT(why(kMlx5, {.merge_mtu = 0}), Contains("only what comes from outside"));
  CHECK_THAT(why(kMlx5, {.use = {.lro = false}}), Contains("off by configuration"));
  CHECK_THAT(why(kMlx5, {.use = {.checksum = false}}), Contains("needs checksum"));
  CHECK_THAT(why(kBnxt, {.use = {.scatter = false}}), Contains("scatter"));
  CHECK_THAT(why(kMlx5, {.merge_mtu = 1600}), Contains("no room for two"));
}

TEST_CASE("Offloads: TSO keeps to the limits of dev_info and of the table", "[plan]") {
  const Segmenting i40e = plan(kI40e).tso;
  CHECK(i40e.able);
  CHECK(i40e.min_size == 256);
  CHECK(i40e.max_size == 9674);
  CHECK(i40e.max_buffers == 255);
  CHECK(i40e.max_buffers_per_segment == 8);
  CHECK_FALSE(i40e.knows_cwr);
  CHECK(plan(kI40e).max_segs == 8);
  const Segmenting hinic = plan(kHinic).tso;  // its dev_info has none
  CHECK(hinic.max_buffers == 127);
  CHECK(hinic.max_buffers_per_segment == 17);
  CHECK(hinic.min_size == 80);
  CHECK(plan(kMlx5).tso.max_buffers == 40);
  CHECK(plan(kVirtio).tso.max_buffers == UINT16_MAX);
  CHECK_FALSE(plan(kVirtio).ip_checksum);  // it doesn't make them: the whole packet's is to stay right
  CHECK(plan(kIce).ip_checksum);
  CHECK_FALSE(plan(kBare).tso.able);
  CHECK_FALSE(plan(kIce, {.use = {.tso = false}}).tso.able);
  CHECK_FALSE(plan(kIce, {.use = {.checksum = false}}).tso.able);
  CHECK(plan(kIce, {.use = {.multi_segment = false}}).tso.max_buffers == 1);
}

TEST_CASE("Offloads: nothing is asked for that a port hasn't, and fast free never", "[plan]") {
  for (const Nic& nic : kAll) {
    for (const bool on : {true, false}) {
      for (uint16_t queues : {1, 4}) {
        Wish w{.queues = queues, .use = {on, on, on, on, on, on}};
        INFO(nic.driver << on);
        const EthdevPlan p = plan(nic, w);
        CHECK((rx(p) & ~nic.rx) == 0);
        CHECK((tx(p) & ~nic.tx) == 0);
        CHECK((tx(p) & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) == 0);
        if (!on) CHECK((rx(p) | tx(p)) == 0);
        CHECK(p.offloads.size() == 6);
        for (const OffloadState& o : p.offloads) {
          INFO(o.name);
          CHECK_FALSE(o.how.empty());
          if (!on) CHECK_FALSE(o.used);
        }
        CHECK((p.conf.rxmode.mq_mode == RTE_ETH_MQ_RX_RSS) == (on && queues > 1));
        CHECK(p.queues == (on ? queues : 1));
        CHECK(p.warnings.empty());
      }
    }
  }
}

TEST_CASE("Order: one queue for all where RSS doesn't bring both directions together", "[plan]") {
  const auto why = [](const EthdevPlan& p) {
    CHECK(p.queues == 1);
    CHECK(p.conf.rxmode.mq_mode == RTE_ETH_MQ_RX_NONE);
    return p.offloads.back().name + ": " + p.offloads.back().how;
  };
  using Catch::Equals;
  CHECK_THAT(why(plan(kIce, {.queues = 17})), Equals("rss: one queue for 17 workers: its driver net_ice has 16 queues"));
  CHECK_THAT(why(plan(kIce, {.queues = 2, .use = {.rss = false}})), Catch::StartsWith("rss: one queue for 2 workers: "));
  Nic tap = kBare;
  tap.driver = "net_tap";
  CHECK_THAT(why(plan(tap, {.queues = 2})),
             Equals("rss: one queue for 2 workers: its driver net_tap doesn't tell how it shares traffic"));
}

// Case D-01: 9000 B that are received, or refused in words, but never lost.
TEST_CASE("Sizes: frames of the MTU with two tags fit the buffers, or the port isn't opened", "[plan]") {
  struct Room {
    uint32_t small, large;
  };
  for (const Nic& nic : kAll) {
    for (uint16_t mtu : {1500, 9000, 9216, 9500}) {
      for (const Room r : {Room{2048, 9600}, Room{2048, 2048}, Room{1518, 9000}}) {
        for (const bool scatter : {true, false}) {
          const Wish w{.mtu = mtu, .small = r.small, .large = r.large, .use = {.scatter = scatter}};
          INFO(nic.driver << " MTU " << mtu << " buffers " << r.small << ", " << r.large << " scatter " << scatter);
          const uint32_t frame = mtu + 22u;
          const bool possible = frame <= r.large || frame <= r.small || (scatter && (nic.rx & kScatter) != 0);
          const std::string why = refusal(nic, w);
          CHECK(why.empty() == possible);
          if (!why.empty()) {
            CHECK_THAT(why, Catch::Contains(std::to_string(r.large)) && Catch::Contains("lower the MTU to"));
            continue;
          }
          const EthdevPlan p = plan(nic, w);
          const uint32_t room = p.large_buffers ? r.large : r.small;
          CHECK((room >= frame || (rx(p) & kScatter) != 0));
          CHECK(p.conf.rxmode.mtu == mtu);
        }
      }
    }
  }
}

// Case D-07.
TEST_CASE("Order: both directions of a flow meet on one queue, IPv4 and IPv6", "[plan]") {
  const EthdevPlan p = plan(kIce, {.queues = 4});
  const rte_eth_rss_conf& rss = p.conf.rx_adv_conf.rss_conf;
  CHECK(rss.rss_key_len == 52);
  CHECK((rss.rss_hf & RTE_ETH_RSS_NONFRAG_IPV6_TCP) != 0);
  CHECK((rss.rss_hf & RTE_ETH_RSS_NONFRAG_IPV4_TCP) != 0);
  uint32_t seen = 0;
  for (uint32_t i = 1; i < 64; ++i) {
    for (const uint32_t words : {3u, 9u}) {  // addresses and ports of either family
      uint32_t there[9], back[9];
      const uint32_t a = (words - 1) / 2;
      for (uint32_t k = 0; k < words; ++k) there[k] = (i + k) * 2654435761u;
      std::memcpy(back, there + a, a * 4);
      std::memcpy(back + a, there, a * 4);
      back[words - 1] = there[words - 1] << 16 | there[words - 1] >> 16;
      const uint32_t hash = rte_softrss(there, words, rss.rss_key);
      CHECK(hash == rte_softrss(back, words, rss.rss_key));
      seen |= 1u << hash % 4;
    }
  }
  CHECK(seen == 0xf);  // and flows spread
}

TEST_CASE("Offloads: drivers are known by what their names begin with", "[plan]") {
  CHECK(quirks_of("mlx5_auxiliary").lro_cap == LroCap::kBlocks);
  CHECK(quirks_of("net_hns3_vf").max_mss == 9668);
  CHECK(quirks_of("net_virtio_user").none_is_partial);
  CHECK(quirks_of("net_nosuch").lro_works);
  CHECK(quirks_of("net_nosuch").min_mss == 1);
}
