// SPDX-License-Identifier: BSD-3-Clause
// Rules as drivers take them: what the validation of mlx5, ice and i40e in DPDK 22.11 asks for, as
// their sources have it. tests/uml creates rules and hits them.
#include "pxio/ctl/flow_rules.h"

#include <rte_byteorder.h>

#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "pxio/ctl/ethdev_setup.h"
#include "tests/support/builder.h"
#include "tests/support/eal.h"

using namespace pxio;
using M = FlowRule::Match;

namespace {

// The values of a pattern, host byte order.
struct Shape {
  std::vector<rte_flow_item_type> types;
  std::optional<uint16_t> frag_spec, frag_last, frag_mask;  // of IPv4
  std::optional<uint16_t> ext_spec, ext_mask;               // of the IPv6 fragment header
  uint8_t proto = 0, proto_mask = 0;
  bool has_frag_ext = false;
  uint16_t port = 0;
};

Shape shape_of(const FlowPattern& p) {
  Shape s;
  for (const rte_flow_item* i = p.items(); i->type != RTE_FLOW_ITEM_TYPE_END; ++i) {
    s.types.push_back(i->type);
    REQUIRE((i->spec == nullptr) == (i->mask == nullptr));
    if (i->last != nullptr) REQUIRE(i->spec != nullptr);
    if (i->spec == nullptr) continue;
    if (i->type == RTE_FLOW_ITEM_TYPE_IPV4) {
      const auto* spec = static_cast<const rte_flow_item_ipv4*>(i->spec);
      const auto* mask = static_cast<const rte_flow_item_ipv4*>(i->mask);
      const auto* last = static_cast<const rte_flow_item_ipv4*>(i->last);
      s.proto = spec->hdr.next_proto_id;
      s.proto_mask = mask->hdr.next_proto_id;
      if (mask->hdr.fragment_offset != 0) {
        s.frag_spec = rte_be_to_cpu_16(spec->hdr.fragment_offset);
        s.frag_mask = rte_be_to_cpu_16(mask->hdr.fragment_offset);
        if (last != nullptr) s.frag_last = rte_be_to_cpu_16(last->hdr.fragment_offset);
      }
      // All of them refuse masks on what they can't look at.
      CHECK(mask->hdr.version_ihl == 0);
      CHECK(mask->hdr.total_length == 0);
      CHECK(mask->hdr.hdr_checksum == 0);
      CHECK(mask->hdr.packet_id == 0);
    } else if (i->type == RTE_FLOW_ITEM_TYPE_IPV6) {
      const auto* spec = static_cast<const rte_flow_item_ipv6*>(i->spec);
      const auto* mask = static_cast<const rte_flow_item_ipv6*>(i->mask);
      s.proto = spec->hdr.proto;
      s.proto_mask = mask->hdr.proto;
      s.has_frag_ext = spec->has_frag_ext == 1 && mask->has_frag_ext == 1;
      CHECK(mask->hdr.payload_len == 0);
    } else if (i->type == RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT) {
      s.ext_spec =
          rte_be_to_cpu_16(static_cast<const rte_flow_item_ipv6_frag_ext*>(i->spec)->hdr.frag_data);
      s.ext_mask =
          rte_be_to_cpu_16(static_cast<const rte_flow_item_ipv6_frag_ext*>(i->mask)->hdr.frag_data);
    } else if (i->type == RTE_FLOW_ITEM_TYPE_UDP) {
      s.port = rte_be_to_cpu_16(static_cast<const rte_flow_item_udp*>(i->spec)->hdr.dst_port);
      CHECK(static_cast<const rte_flow_item_udp*>(i->mask)->hdr.dst_port == 0xffff);
      CHECK(static_cast<const rte_flow_item_udp*>(i->mask)->hdr.src_port == 0);
    }
  }
  return s;
}

// mlx5_flow_dv.c, flow_dv_validate_item_ipv4: the whole mask, a range, and of ranges this one
// alone.
bool mlx5_takes(const Shape& s, bool v6) {
  if (v6) return s.has_frag_ext;
  return s.frag_mask == 0x3fff && s.frag_spec == 0x0001 && s.frag_last == 0x3fff;
}
// ice_fdir_filter.c, ice_fdir_parse_pattern: MF, or bit 0 of the fragment header, with masks of the
// same.
bool ice_takes(const Shape& s, bool v6) {
  if (v6) return s.ext_spec == 1 && s.ext_mask == 1;
  return s.frag_spec == 0x2000 && s.frag_mask == 0x2000 && !s.frag_last;
}
// i40e_flow.c, i40e_flow_parse_fdir_pattern: a range of offsets under the whole mask; the next
// header.
bool i40e_takes(const Shape& s, bool v6) {
  if (v6) return s.proto == 44 && s.proto_mask == 0xff && !s.has_frag_ext;
  return s.frag_spec == 0x0008 && s.frag_mask == 0x3fff && s.frag_last == 0x2000;
}
using Takes = bool (*)(const Shape&, bool);
const std::map<std::string, Takes> kDrivers = {
    {"mlx5_pci", mlx5_takes}, {"net_ice", ice_takes}, {"net_i40e", i40e_takes}};

}  // namespace

TEST_CASE("Flow rules: fragments are spelled as each driver takes them, and no other way",
          "[flow_rules]") {
  for (const auto& [driver, takes] : kDrivers) {
    for (const bool v6 : {false, true}) {
      INFO(driver << (v6 ? " IPv6" : " IPv4"));
      for (const auto& [other, unused] : kDrivers) {
        const FlowPattern p({M::kFragments, v6}, quirks_of(other).fragments);
        CHECK(takes(shape_of(p), v6) == (other == driver));
      }
    }
  }
}

TEST_CASE("Flow rules: a driver that isn't known gets the full spelling, never another's shorthand",
          "[flow_rules]") {
  for (const bool v6 : {false, true}) {
    const FlowPattern p({M::kFragments, v6}, quirks_of("net_new").fragments);
    CHECK(mlx5_takes(shape_of(p), v6));
  }
}

TEST_CASE("Flow rules: ICMP by its protocol, probes by their port, on every driver alike",
          "[flow_rules]") {
  using T = std::vector<rte_flow_item_type>;
  for (const char* driver : {"mlx5_pci", "net_ice", "net_i40e", "net_new"}) {
    const FragmentMatch how = quirks_of(driver).fragments;
    const Shape icmp = shape_of(FlowPattern({M::kIcmp, false}, how)),
                icmp6 = shape_of(FlowPattern({M::kIcmp, true}, how));
    CHECK(icmp.types == T{RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV4});
    CHECK((icmp.proto == 1 && icmp.proto_mask == 0xff && !icmp.frag_spec));
    CHECK(icmp6.types == T{RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV6});
    CHECK((icmp6.proto == 58 && icmp6.proto_mask == 0xff));
    const Shape udp = shape_of(FlowPattern({M::kUdpPort, false, 7474}, how));
    CHECK(udp.types == T{RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_UDP});
    CHECK((udp.port == 7474 && udp.proto_mask == 0));
    CHECK(shape_of(FlowPattern({M::kUdpPort, true, 7474}, how)).types ==
          T{RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV6, RTE_FLOW_ITEM_TYPE_UDP});
  }
}

TEST_CASE("Flow rules: without probes there are none for their port", "[flow_rules]") {
  CHECK(wanted_flow_rules(0).size() == 4);
  const auto with = wanted_flow_rules(7474);
  CHECK(with.size() == 6);
  CHECK(std::count_if(with.begin(), with.end(), [](const FlowRule& r) {
          return r.match == M::kUdpPort && r.port == 7474;
        }) == 2);
}

TEST_CASE("Flow rules: a port that refuses them all works as it did, and says so", "[flow_rules]") {
  test::NoLeak guard;
  EthdevOptions o{.device = "net_ring0",
                  .queues = 1,
                  .mtu = 1500,
                  .buffers = test::pools().buffers(),
                  .descriptors = 256};
  o.probe_port = 7474;
  auto port = open_ethdev(o);
  const auto states = port->flow_rules();
  REQUIRE(states.size() == 6);
  for (const OffloadState& s : states) CHECK((!s.used && s.how == "one queue"));
  FlowRules rules(port->id(), 0, FragmentMatch::kRange, wanted_flow_rules(7474));
  for (int start = 0; start < 2; ++start) {
    rules.create();
    REQUIRE(rules.states().size() == 6);
    for (const OffloadState& s : rules.states()) {
      CHECK_FALSE(s.used);
      CHECK_THAT(s.how, Catch::Contains("the NIC refuses it") && Catch::Contains("RSS"));
    }
  }
  rte_mbuf* m = test::to_mbuf(test::tcp4().data(100), test::pools().buffers()).release();
  REQUIRE(port->tx_burst(0, &m, 1) == 1);
  REQUIRE(port->rx_burst(0, &m, 1) == 1);
  PktPtr(m).reset();
}

TEST_CASE("Flow rules: off by configuration", "[flow_rules]") {
  EthdevOptions o{.device = "net_ring0",
                  .queues = 1,
                  .mtu = 1500,
                  .buffers = test::pools().buffers(),
                  .descriptors = 256};
  o.use.flow_rules = false;
  for (const OffloadState& s : open_ethdev(o)->flow_rules())
    CHECK(s.how == "off by configuration");
}
