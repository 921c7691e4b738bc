// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/ctl/flow_rules.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <rte_byteorder.h>
#include <rte_errno.h>
#include <rte_ip.h>

#include <utility>

#include "pxio/ctl/eal_log.h"

namespace pxio {
namespace {

std::string name_of(const FlowRule& r) {
  const char* family = r.v6 ? "IPv6" : "IPv4";
  switch (r.match) {
    case FlowRule::Match::kFragments:
      return fmt::format("{} fragments", family);
    case FlowRule::Match::kIcmp:
      return r.v6 ? "ICMPv6" : "ICMP";
    case FlowRule::Match::kUdpPort:
      break;
  }
  return fmt::format("{} UDP to port {}", family, r.port);
}

}  // namespace

std::vector<FlowRule> wanted_flow_rules(uint16_t probe_port) {
  using M = FlowRule::Match;
  std::vector<FlowRule> rules;
  for (const bool v6 : {false, true}) {
    rules.push_back({M::kFragments, v6});
    rules.push_back({M::kIcmp, v6});
    if (probe_port != 0) rules.push_back({M::kUdpPort, v6, probe_port});
  }
  return rules;
}

std::vector<OffloadState> unused_flow_rules(const std::vector<FlowRule>& wanted,
                                            const std::string& why) {
  std::vector<OffloadState> states;
  for (const FlowRule& r : wanted) states.push_back({name_of(r), false, why});
  return states;
}

void FlowPattern::add(rte_flow_item_type type, const void* spec, const void* mask,
                      const void* last) {
  rte_flow_item& item = items_[n_++];
  item.type = type;
  item.spec = spec;
  item.mask = mask;
  item.last = last;
}

void FlowPattern::protocol(bool v6, uint8_t proto) {
  if (v6) {
    ipv6_.hdr.proto = proto;
    ipv6_mask_.hdr.proto = 0xff;
    return add(RTE_FLOW_ITEM_TYPE_IPV6, &ipv6_, &ipv6_mask_);
  }
  ipv4_.hdr.next_proto_id = proto;
  ipv4_mask_.hdr.next_proto_id = 0xff;
  add(RTE_FLOW_ITEM_TYPE_IPV4, &ipv4_, &ipv4_mask_);
}

// Each driver knows them by one spelling alone (driver_quirks.h).
void FlowPattern::fragments(FragmentMatch how, bool v6) {
  if (v6) {
    switch (how) {
      case FragmentMatch::kRange:
        ipv6_.has_frag_ext = ipv6_mask_.has_frag_ext = 1;
        return add(RTE_FLOW_ITEM_TYPE_IPV6, &ipv6_, &ipv6_mask_);
      case FragmentMatch::kMoreFragments:
        frag_.hdr.frag_data = frag_mask_.hdr.frag_data = rte_cpu_to_be_16(1);
        add(RTE_FLOW_ITEM_TYPE_IPV6);
        return add(RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT, &frag_, &frag_mask_);
      case FragmentMatch::kPacketType:
        return protocol(true, IPPROTO_FRAGMENT);
    }
  }
  const auto set = [this](uint16_t spec, uint16_t last, uint16_t mask) {
    ipv4_.hdr.fragment_offset = rte_cpu_to_be_16(spec);
    ipv4_last_.hdr.fragment_offset = rte_cpu_to_be_16(last);
    ipv4_mask_.hdr.fragment_offset = rte_cpu_to_be_16(mask);
    add(RTE_FLOW_ITEM_TYPE_IPV4, &ipv4_, &ipv4_mask_, last != 0 ? &ipv4_last_ : nullptr);
  };
  constexpr uint16_t kFragmented = RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK;
  switch (how) {
    case FragmentMatch::kRange:
      return set(1, kFragmented, kFragmented);
    case FragmentMatch::kMoreFragments:
      return set(RTE_IPV4_HDR_MF_FLAG, 0, RTE_IPV4_HDR_MF_FLAG);
    case FragmentMatch::kPacketType:
      return set(8, RTE_IPV4_HDR_MF_FLAG, kFragmented);
  }
}

FlowPattern::FlowPattern(const FlowRule& rule, FragmentMatch how) {
  add(RTE_FLOW_ITEM_TYPE_ETH);
  switch (rule.match) {
    case FlowRule::Match::kFragments:
      fragments(how, rule.v6);
      break;
    case FlowRule::Match::kIcmp:
      // By protocol: types need special firmware on some NICs, and software looks at them anyway.
      protocol(rule.v6, rule.v6 ? uint8_t{IPPROTO_ICMPV6} : uint8_t{IPPROTO_ICMP});
      break;
    case FlowRule::Match::kUdpPort:
      udp_.hdr.dst_port = rte_cpu_to_be_16(rule.port);
      udp_mask_.hdr.dst_port = 0xffff;
      add(rule.v6 ? RTE_FLOW_ITEM_TYPE_IPV6 : RTE_FLOW_ITEM_TYPE_IPV4);
      add(RTE_FLOW_ITEM_TYPE_UDP, &udp_, &udp_mask_);
      break;
  }
}

FlowRules::FlowRules(uint16_t port_id, uint16_t queue, FragmentMatch fragments,
                     std::vector<FlowRule> wanted)
    : port_id_(port_id), queue_(queue), fragments_(fragments), wanted_(std::move(wanted)) {}

FlowRules::~FlowRules() { remove(); }

void FlowRules::remove() {
  EalLog quiet;
  rte_flow_error error{};
  for (rte_flow* f : std::exchange(flows_, {})) rte_flow_destroy(port_id_, f, &error);
}

bool FlowRules::create(const rte_flow_item* pattern, uint32_t priority, rte_flow_error& error) {
  rte_flow_attr attr{};
  attr.ingress = 1;
  attr.priority = priority;
  rte_flow_action_queue queue{};
  queue.index = queue_;
  std::array<rte_flow_action, 2> actions{};
  actions[0].type = RTE_FLOW_ACTION_TYPE_QUEUE;
  actions[0].conf = &queue;
  actions[1].type = RTE_FLOW_ACTION_TYPE_END;
  if (rte_flow_validate(port_id_, &attr, pattern, actions.data(), &error) != 0) return false;
  rte_flow* flow = rte_flow_create(port_id_, &attr, pattern, actions.data(), &error);
  if (flow != nullptr) flows_.push_back(flow);
  return flow != nullptr;
}

void FlowRules::create() {
  remove();
  states_.clear();
  EalLog quiet;
  uint32_t own = 0;
  for (const FlowRule& rule : wanted_) {
    const FlowPattern pattern(rule, fragments_);
    rte_flow_error error{};
    ++own;
    // All lead to one queue, so their order says nothing: most NICs know one priority, the kernel
    // behind net_tap wants one a rule.
    if (create(pattern.items(), 0, error) || create(pattern.items(), own, error)) {
      states_.push_back({name_of(rule), true, fmt::format("to queue {}", queue_)});
    } else {
      const char* why = error.message != nullptr ? error.message : rte_strerror(rte_errno);
      states_.push_back(
          {name_of(rule), false, fmt::format("the NIC refuses it ({}); goes by RSS", why)});
    }
  }
}

}  // namespace pxio
