// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/ctl/driver_quirks.h"

namespace pxio {
namespace {

using S = SegmentSize;

constexpr DriverQuirks kTable[] = {
    // drivers/net/mlx5: mlx5_rxq.c (LRO size), mlx5_rx.c (len / lro_num_seg), mlx5.rst "LRO"; no prepare
    // hook. Its maximum is the least over all queues, so LRO is asked for on all of them.
    {.driver = "mlx5", .lro_cap = LroCap::kBlocks, .segment_size = S::kApproximate,
     .bad_behind_other_headers = true, .tx_prepare = false},
    // bnxt_hwrm.c: 32 segments, no size; bnxt_rxr.c sets the flag alone. No prepare hook.
    {.driver = "net_bnxt", .segment_size = S::kMissing, .tx_prepare = false},
    {.driver = "net_cn9k", .tx_prepare = false},
    {.driver = "net_cn10k", .tx_prepare = false},
    // qede_rxtx.c: 32767 B whatever is asked; one buffer a segment.
    {.driver = "net_qede", .segment_size = S::kMissing},
    // ixgbe_rxtx.c: RSC by descriptors and buffer size; neither flag nor size.
    {.driver = "net_ixgbe", .segment_size = S::kMissing, .lro_flag = false},
    {.driver = "net_txgbe", .segment_size = S::kMissing},
    // hns3_rxtx.c: publishes 64512 B and doesn't go below; segments of 256 ... 9668 B.
    {.driver = "net_hns3", .lro_cap = LroCap::kIgnored, .min_mss = 256, .max_mss = 9668},
    // hinic_pmd_rx.c: pkt_len / lro_num; hinic_pmd_tx.h: limits that dev_info doesn't have.
    {.driver = "net_hinic", .segment_size = S::kApproximate, .min_mss = 80, .tso_buffers = 127,
     .buffers = 17},
    // gve_rx_dqo.c isn't there in 22.11: the setting goes nowhere.
    {.driver = "net_gve", .segment_size = S::kMissing, .lro_flag = false, .lro_works = false},
    // i40e_rxtx.h, ice_rxtx.h, iavf_rxtx.h: outside it the NIC reports a malicious driver. i40e_flow.c,
    // ice_fdir_filter.c, iavf_fdir.c: fragments.
    {.driver = "net_i40e", .min_mss = 256, .max_mss = 9674, .fragments = FragmentMatch::kPacketType},
    {.driver = "net_ice", .min_mss = 64, .max_mss = 9728, .fragments = FragmentMatch::kMoreFragments},
    {.driver = "net_iavf", .min_mss = 256, .max_mss = 9668, .fragments = FragmentMatch::kMoreFragments},
    // enic_rxtx.c: segment and headers at most 9208 B; headers here have at most 122.
    {.driver = "net_enic", .max_mss = 9208 - 122},
    // virtio_rxtx.c and lib/vhost: a peer on this machine leaves checksums to us.
    {.driver = "net_virtio", .none_is_partial = true},
    {.driver = "net_vhost", .none_is_partial = true},
    {.driver = "net_af_packet", .fixed_frames = true, .wraps_interface = true,
     .warning = "net_af_packet never delivers IPv4 fragments, cuts what the kernel's GRO or GSO merged, "
                "receives frames that the host itself sends, and makes any outer VLAN tag one of type "
                "0x8100; the kernel interface itself as a port has none of these limits"},
    // rte_eth_tap.c keeps the RSS settings; the kernel shares traffic by its own flow hash.
    {.driver = "net_tap", .rss = false, .wraps_interface = true, .warning = "net_tap sends nothing longer than 1500 B"},
    {.driver = "net_af_xdp", .wraps_interface = true,
     .warning = "net_af_xdp takes nothing longer than 3.5 KB"},
};

}  // namespace

const DriverQuirks& quirks_of(std::string_view driver) {
  static constexpr DriverQuirks kNone{};
  for (const DriverQuirks& q : kTable)
    if (driver.starts_with(q.driver)) return q;
  return kNone;
}

}  // namespace pxio
