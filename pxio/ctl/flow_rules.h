// SPDX-License-Identifier: BSD-3-Clause
// What a port with several queues steers in hardware (rte_flow): fragments, ICMP and probes come to
// one queue, so that one worker sees the fragments of a probe and its unfragmented ones, and errors
// are counted in one place. TCP and caravans are left to RSS, which spreads them over all queues,
// LRO or not: a rule of their own could hash in another way on the port of the other side. Nothing
// depends on a rule: what a NIC refuses goes where RSS takes it, and software looks at every packet
// in either case. Main thread.
#pragma once
#include <rte_flow.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "pxio/ctl/driver_quirks.h"
#include "pxio/dp/port.h"

namespace pxio {

struct FlowRule {
  enum class Match : uint8_t { kFragments, kIcmp, kUdpPort };
  Match match;
  bool v6;
  uint16_t port = 0;  // UDP destination, host byte order
};

// What is wanted. `probe_port`: UDP, host byte order; 0: none.
std::vector<FlowRule> wanted_flow_rules(uint16_t probe_port);

// A rule as a driver takes it; it points into itself.
class FlowPattern {
 public:
  FlowPattern(const FlowRule& rule, FragmentMatch fragments);
  FlowPattern(const FlowPattern&) = delete;
  FlowPattern& operator=(const FlowPattern&) = delete;
  const rte_flow_item* items() const { return items_.data(); }  // ends with RTE_FLOW_ITEM_TYPE_END

 private:
  void fragments(FragmentMatch how, bool v6);
  void protocol(bool v6, uint8_t proto);
  void add(rte_flow_item_type type, const void* spec = nullptr, const void* mask = nullptr,
           const void* last = nullptr);

  std::array<rte_flow_item, 4> items_{};  // zero is RTE_FLOW_ITEM_TYPE_END
  size_t n_ = 0;
  rte_flow_item_ipv4 ipv4_{}, ipv4_last_{}, ipv4_mask_{};
  rte_flow_item_ipv6 ipv6_{}, ipv6_mask_{};
  rte_flow_item_ipv6_frag_ext frag_{}, frag_mask_{};
  rte_flow_item_udp udp_{}, udp_mask_{};
};

// The rules of a started port. Those of a port that was stopped are gone with some drivers:
// create() again.
class FlowRules {
 public:
  // `queue`: where all of them lead.
  FlowRules(uint16_t port_id, uint16_t queue, FragmentMatch fragments,
            std::vector<FlowRule> wanted);
  // Removes them. The port is still open.
  ~FlowRules();
  FlowRules(const FlowRules&) = delete;
  FlowRules& operator=(const FlowRules&) = delete;

  // Validates and creates each, in the place of those that are there.
  void create();
  void remove();
  const std::vector<OffloadState>& states() const { return states_; }

 private:
  bool create(const rte_flow_item* pattern, uint32_t priority, rte_flow_error& error);

  const uint16_t port_id_, queue_;
  const FragmentMatch fragments_;
  const std::vector<FlowRule> wanted_;
  std::vector<rte_flow*> flows_;
  std::vector<OffloadState> states_;
};

// What is said of the same rules where none are made.
std::vector<OffloadState> unused_flow_rules(const std::vector<FlowRule>& wanted,
                                            const std::string& why);

}  // namespace pxio
