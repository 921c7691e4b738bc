// SPDX-License-Identifier: BSD-3-Clause
// What DPDK's drivers don't tell of themselves, or tell wrongly. All else is asked of the port
// (rte_eth_dev_info); a driver that isn't listed is taken at its word. From the sources and the guides of
// DPDK 22.11. Main thread.
#pragma once
#include <cstdint>
#include <string_view>

namespace pxio {

// What a driver makes of rxmode.max_lro_pkt_size.
enum class LroCap : uint8_t {
  kAsSaid,    // what dev_info says: a limit where it publishes one, else none
  kBlocks,    // mlx5: rounded down to blocks of 256 B, counted from the TCP header or from Ethernet's
  kIgnored,   // it wants a value and doesn't keep to it
};

// What the segment size of a merged packet (tso_segsz) is worth.
enum class SegmentSize : uint8_t {
  kExact,
  kApproximate,  // bytes by segments, headers included
  kMissing,
};

// How a rule says "IP fragments".
enum class FragmentMatch : uint8_t {
  kRange,          // in full: IPv4 offset and MF 0x0001 ... 0x3fff; IPv6 has_frag_ext
  kMoreFragments,  // ice, iavf: MF alone, or a fragment header with M, stand for all fragments
  kPacketType,     // i40e: IPv4 0x0008 ... 0x2000 is its packet type FRAG_IPV4; IPv6 next header 44
};

struct DriverQuirks {
  std::string_view driver;  // what its name begins with
  LroCap lro_cap = LroCap::kAsSaid;
  SegmentSize segment_size = SegmentSize::kExact;
  bool lro_flag = true;      // RTE_MBUF_F_RX_LRO is set; else only their length tells merged packets
  bool lro_works = true;     // false: the capability has nothing behind it
  // RTE_MBUF_F_RX_L4_CKSUM_NONE means that the sender, on this machine, left the checksum to hardware.
  bool none_is_partial = false;
  // With LRO on, TCP behind anything but Ethernet, one tag and IP arrives as "bad" whatever its checksum.
  bool bad_behind_other_headers = false;
  bool tx_prepare = true;    // false: rte_eth_tx_prepare looks at nothing
  // TCP payload of a segment that TSO makes; outside it some NICs stop the queue as malicious.
  uint16_t min_mss = 1, max_mss = UINT16_MAX;
  // Buffers in a packet with TSO, and without (or in one of its segments), where dev_info has none.
  uint16_t tso_buffers = UINT16_MAX, buffers = UINT16_MAX;
  // net_af_packet: it says MTU 1500 and takes what its frames of a fixed size (framesz=) hold.
  bool fixed_frames = false;
  bool rss = true;               // false: what it says of RSS isn't how it shares traffic
  FragmentMatch fragments = FragmentMatch::kRange;
  bool wraps_interface = false;  // of the kernel, which as a port itself has fewer limits
  std::string_view warning = {};  // what an operator should know of it
};

// Never fails: a driver without an entry gets the defaults.
const DriverQuirks& quirks_of(std::string_view driver);

}  // namespace pxio
