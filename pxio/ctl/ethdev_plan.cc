// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/ctl/ethdev_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace pxio {
namespace {

// Ethernet header, alone and with two VLAN tags.
constexpr uint32_t kEthernet = 14, kLinkHeader = kEthernet + 8;
constexpr uint64_t kRxChecks =
    RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
constexpr const char* kOff = "off by configuration";

// Toeplitz with this key gives both directions of a flow the same hash, for IPv4 and IPv6: it repeats
// every 16 bits, and addresses and ports are whole multiples of that.
uint8_t* symmetric_key() {
  static std::array<uint8_t, 64> key = [] {
    std::array<uint8_t, 64> k{};
    for (size_t i = 0; i < k.size(); ++i) k[i] = i % 2 == 0 ? 0x6d : 0x5a;
    return k;
  }();
  return key.data();
}

// Of what dev_info says, 0 where it doesn't, and the table.
uint16_t known(uint16_t said, uint16_t quirk) { return said == 0 ? quirk : std::min(said, quirk); }
std::string count_text(uint16_t n) { return n == UINT16_MAX ? "any number of" : fmt::format("up to {}", n); }

class Planner {
 public:
  explicit Planner(const EthdevRequest& r) : r_(r), d_(r.info), q_(r.quirks) {}

  EthdevPlan plan() {
    p_.conf.rxmode.mtu = r_.mtu;
    checksum();
    lro();
    buffers();
    multi_segment();
    tso();
    rss();
    return std::move(p_);
  }

 private:
  bool rx_has(uint64_t bits) const { return (d_.rx_offload_capa & bits) == bits; }
  bool tx_has(uint64_t bits) const { return (d_.tx_offload_capa & bits) == bits; }
  void note(const char* name, bool used, std::string how) {
    p_.offloads.push_back({name, used, std::move(how)});
  }
  std::string lacks() const { return fmt::format("its driver {} has none", d_.driver_name); }

  void checksum() {
    const uint64_t rx = r_.use.checksum ? d_.rx_offload_capa & kRxChecks : 0;
    p_.conf.rxmode.offloads |= rx;
    p_.receive.none_is_partial = rx != 0 && q_.none_is_partial;
    if (!r_.use.checksum) return note("checksum", false, kOff);
    std::string how;
    for (const auto& [bit, name] : {std::pair{RTE_ETH_RX_OFFLOAD_IPV4_CKSUM, "IPv4"},
                                    {RTE_ETH_RX_OFFLOAD_TCP_CKSUM, "TCP"},
                                    {RTE_ETH_RX_OFFLOAD_UDP_CKSUM, "UDP"}})
      if ((rx & bit) != 0) how += fmt::format("{}{}", how.empty() ? "verdicts on " : ", ", name);
    if (tx_has(RTE_ETH_TX_OFFLOAD_TCP_CKSUM))
      how += fmt::format("{}made for what TSO cuts", how.empty() ? "" : "; ");
    note("checksum", !how.empty(), how.empty() ? lacks() : how);
  }

  // Why not, or nothing.
  std::string lro_obstacle() const {
    if (r_.merge_mtu == 0) return "only what comes from outside is merged";
    if (!r_.use.lro) return kOff;
    if (!rx_has(RTE_ETH_RX_OFFLOAD_TCP_LRO)) return lacks();
    if (!q_.lro_works) return fmt::format("its driver {} has nothing behind it", d_.driver_name);
    // A merged packet whose checksum is unfinished couldn't be told from a damaged one.
    if (!r_.use.checksum) return "needs checksum, which is off";
    if (lro_cap() == 0 && !(r_.use.scatter && rx_has(RTE_ETH_RX_OFFLOAD_SCATTER)))
      return "its packets can't be limited to one buffer, and scatter isn't used";
    if (lro_cap() > std::max(r_.small_room, r_.large_room) && !(r_.use.scatter && rx_has(RTE_ETH_RX_OFFLOAD_SCATTER)))
      return fmt::format("its packets of {} B fit no buffer, and scatter isn't used", lro_cap());
    if (lro_cap() != 0 && lro_cap() < 2u * r_.mtu) return "the inside MTU has no room for two segments";
    return "";
  }

  // Bytes that a merged packet is limited to; 0: it can't be.
  uint32_t lro_cap() const {
    if (d_.max_lro_pkt_size == 0 || q_.lro_cap == LroCap::kIgnored) return 0;
    if (q_.lro_cap == LroCap::kAsSaid)
      return std::min<uint32_t>(d_.max_lro_pkt_size, r_.merge_mtu + kEthernet);
    // Blocks of 256 B count from the TCP header or from Ethernet's, as the firmware has it. n of them
    // must fit an IPv6 packet of the MTU behind its 40 B; from 62 B above (14 + 8 + 40) the driver, which
    // takes them off in the first case, arrives at n in both. MTU 9000: 35 blocks, 9022 B; 9014 would give
    // 34, a segment less.
    const uint32_t blocks = (r_.merge_mtu - 40u) / 256;
    return std::min<uint32_t>(d_.max_lro_pkt_size, blocks * 256 + 62);
  }

  void lro() {
    p_.receive.merged_by_length = false;
    p_.receive.keeps_segment_size = q_.segment_size == SegmentSize::kExact;
    if (std::string why = lro_obstacle(); !why.empty()) return note("lro", false, std::move(why));
    lro_ = true;
    p_.conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_TCP_LRO;
    p_.conf.rxmode.max_lro_pkt_size = lro_cap() != 0 ? lro_cap() : d_.max_lro_pkt_size;
    p_.receive.merged_by_length = !q_.lro_flag;
    p_.receive.bad_behind_other_headers = q_.bad_behind_other_headers;
    std::string how = lro_cap() == 0
                          ? "packets of any size, cut again where they exceed the inside MTU"
                          : fmt::format("packets of up to {} B", lro_cap());
    if (q_.segment_size == SegmentSize::kApproximate) {
      how += "; segment sizes from the flow, the driver's are approximate";
    } else if (q_.segment_size == SegmentSize::kMissing) {
      how += "; segment sizes from the flow, the driver has none";
    }
    note("lro", true, std::move(how));
  }

  void buffers() {
    uint32_t frame = r_.mtu + kLinkHeader;
    // One buffer for what is merged, where it is bounded: several would cost a descriptor each.
    if (lro_ && lro_cap() != 0) frame = std::max(frame, lro_cap());
    p_.large_buffers = frame > r_.small_room || d_.min_rx_bufsize > r_.small_room;
    const uint32_t room = p_.large_buffers ? r_.large_room : r_.small_room;
    const bool can = rx_has(RTE_ETH_RX_OFFLOAD_SCATTER);
    const bool need = frame > room;
    if (need && !(can && r_.use.scatter)) {
      throw std::runtime_error(fmt::format(
          "frames of {} B don't fit buffers of {} B, and {}; {}lower the MTU to {}", frame, room,
          can ? "scatter is off" : fmt::format("its driver {} can't use several", d_.driver_name),
          can ? "allow scatter, or " : "", room - kLinkHeader));
    }
    const bool use = need || (lro_ && lro_cap() == 0);
    if (use) p_.conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
    const std::string one = fmt::format("every frame fits a buffer of {} B", room);
    note("scatter", use,
         use ? fmt::format("buffers of {} B", room) : !r_.use.scatter ? kOff : !can ? lacks() : one);
  }

  void multi_segment() {
    const bool can = tx_has(RTE_ETH_TX_OFFLOAD_MULTI_SEGS), use = can && r_.use.multi_segment;
    if (use) {
      p_.conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
      p_.max_segs = known(d_.tx_desc_lim.nb_mtu_seg_max, q_.buffers);
    }
    const std::string copied = "; packets in several buffers are copied into one";
    note("multi_segment", use,
         use ? fmt::format("{} buffers a packet", count_text(p_.max_segs))
             : (can ? kOff : lacks()) + copied);
  }

  std::string tso_obstacle() const {
    if (!r_.use.tso) return kOff;
    if (!tx_has(RTE_ETH_TX_OFFLOAD_TCP_TSO)) return lacks();
    if (!r_.use.checksum) return "needs checksum, which is off";
    return "";
  }

  void tso() {
    if (std::string why = tso_obstacle(); !why.empty()) return note("tso", false, std::move(why));
    p_.conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_TCP_TSO;
    p_.conf.txmode.offloads |=
        d_.tx_offload_capa & (RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM);
    p_.ip_checksum = tx_has(RTE_ETH_TX_OFFLOAD_IPV4_CKSUM);
    Segmenting& s = p_.tso;
    s.able = true;
    s.min_size = q_.min_mss;
    s.max_size = q_.max_mss;
    s.max_buffers = p_.max_segs == 1 ? 1 : known(d_.tx_desc_lim.nb_seg_max, q_.tso_buffers);
    s.max_buffers_per_segment = p_.max_segs == 1 ? 2 : p_.max_segs;
    std::string sizes = "segments of any size";
    if (s.min_size > 1 || s.max_size < UINT16_MAX) {
      sizes = s.max_size < UINT16_MAX ? fmt::format("segments of {} to {} B", s.min_size, s.max_size)
                                      : fmt::format("segments of {} B and more", s.min_size);
    }
    note("tso", true,
         fmt::format("{}, {} buffers a packet{}; CWR and AccECN by software", sizes,
                     count_text(s.max_buffers), q_.tx_prepare ? "" : "; its driver checks nothing, we do"));
  }

  // Empty: both directions of a flow come to the same of the queues that are wanted.
  std::string no_rss() const {
    constexpr uint64_t kTcp = RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV6_TCP;
    const uint16_t most = std::min(d_.max_rx_queues, d_.max_tx_queues);
    if (!r_.use.rss) return kOff;
    if (r_.queues > most) return fmt::format("its driver {} has {}", d_.driver_name, most == 1 ? "one queue" : fmt::format("{} queues", most));
    if (!q_.rss || (d_.flow_type_rss_offloads & kTcp) != kTcp)
      return fmt::format("its driver {} doesn't tell how it shares traffic", d_.driver_name);
    return {};
  }

  void rss() {
    if (r_.queues == 1) return note("rss", false, "one queue");
    if (const std::string why = no_rss(); !why.empty())
      return note("rss", false, fmt::format("one queue for {} workers: {}", r_.queues, why));
    p_.queues = r_.queues;
    rte_eth_rss_conf& rss = p_.conf.rx_adv_conf.rss_conf;
    p_.conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    rss.rss_hf = d_.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP);
    rss.rss_key = symmetric_key();
    rss.rss_key_len = d_.hash_key_size != 0 ? std::min<uint8_t>(d_.hash_key_size, 64) : 40;
    note("rss", true, fmt::format("{} queues, the same one for both directions", r_.queues));
  }

  const EthdevRequest& r_;
  const rte_eth_dev_info& d_;
  const DriverQuirks& q_;
  EthdevPlan p_;
  bool lro_ = false;
};

}  // namespace

EthdevPlan plan_ethdev(const EthdevRequest& request) { return Planner(request).plan(); }

}  // namespace pxio
