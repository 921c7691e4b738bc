// SPDX-License-Identifier: BSD-3-Clause
// Reads pairs of ports.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <regex>

#include "pxgw/ctl/config_value.h"

namespace pxgw {
namespace {

PortConfig::Kind device_kind(const Value& v, std::string& device) {
  static const std::regex kPci("([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\\.[0-7](,.*)?");
  static const std::string kWant =
      "an interface (eth0), a PCI address (0000:01:00.0) or DPDK devargs (net_xxx,args)";
  if (device.starts_with("kernel:"))
    device.erase(0, 7);
  else if (std::regex_match(device, kPci)) {
    if (device.find(':') == 2) device.insert(0, "0000:");
    return PortConfig::Kind::kPci;
  } else if (device.starts_with("net_") || device.starts_with("eth_")) {
    return PortConfig::Kind::kVdev;
  }
  // As the kernel has it: dev_valid_name() wants 1 to 15 characters, without these.
  if (device.empty() || device.size() > 15 || device.find_first_of(":,/ \t\n") != std::string::npos)
    v.fail(fmt::format("'{}' is not a device; give {}", device, kWant));
  return PortConfig::Kind::kKernel;
}

// Returns the first key that is off and that a Linux interface doesn't have.
std::optional<Value> read_offloads(const Value& v, pxio::OffloadWishes& wishes) {
  std::optional<Value> first;
  v.map("lro, tso, checksum, scatter, multi_segment, rss, flow_rules", [&](const std::string& name, const Value& x) {
    for (const auto& [known, wish] : kOffloads) {
      if (known != name) continue;
      using Choice = std::pair<std::string_view, bool>;
      const bool use = x.one_of(std::array{Choice{"auto", true}, Choice{"off", false}});
      wishes.*wish = use;
      if (!use && name != "lro" && name != "tso" && !first) first = x;
      return true;
    }
    return false;
  });
  return first;
}

PortConfig read_port(const Value& v, uint16_t default_mtu) {
  PortConfig p;
  std::optional<Value> nic_only;
  p.mtu = default_mtu;
  p.mtu_line = v.line();
  v.map("device, mtu, offloads", [&](const std::string& name, const Value& x) {
    if (name == "device") {
      p.device = x.text("an interface, a PCI address or DPDK devargs");
      p.line = x.line();
      p.kind = device_kind(x, p.device);
    } else if (name == "mtu") {
      p.mtu = static_cast<uint16_t>(x.number(kMinMtu, kMaxMtu, "B"));
      p.mtu_line = x.line();
    } else if (name == "offloads") {
      nic_only = read_offloads(x, p.offloads);
    } else {
      return false;
    }
    return true;
  });
  if (p.device.empty()) v.fail("has no device; add `device: eth0`, for instance");
  if (nic_only && p.kind == PortConfig::Kind::kKernel)
    nic_only->fail(fmt::format("{} is a Linux interface, of which only `lro` and `tso` can be off here; leave this out, "
                               "and see `ethtool -K {}`",
                               p.device, p.device));
  return p;
}

}  // namespace

std::vector<PairConfig> read_pairs(const Value& v) {
  std::vector<PairConfig> pairs;
  std::vector<std::string> used;
  for (const Value& item : v.list("pairs, each with `outside` and `inside`")) {
    PairConfig pair;
    item.map("outside, inside", [&](const std::string& name, const Value& x) {
      if (name == "outside")
        pair.outside = read_port(x, 1500);
      else if (name == "inside")
        pair.inside = read_port(x, 9000);
      else
        return false;
      return true;
    });
    if (pair.outside.device.empty())
      item.fail("has no `outside` port; add `outside: {device: ..., mtu: 1500}`");
    if (pair.inside.device.empty())
      item.fail("has no `inside` port; add `inside: {device: ..., mtu: 9000}`");
    pair.line = item.line();
    for (const PortConfig* p : {&pair.outside, &pair.inside}) {
      if (std::find(used.begin(), used.end(), p->device) != used.end())
        item.fail(fmt::format("device {} is used twice; each port belongs to one side of one pair",
                              p->device));
      used.push_back(p->device);
    }
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty()) v.fail("is empty; give at least one pair of ports");
  if (pairs.size() > kMaxPairs)
    v.fail(fmt::format("{} pairs; at most {} are possible", pairs.size(), kMaxPairs));
  return pairs;
}

}  // namespace pxgw
