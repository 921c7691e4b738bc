// SPDX-License-Identifier: BSD-3-Clause
// Reads `caravan`: bundles of UDP datagrams, and for whom.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "caravan/dp/bundler.h"
#include "pxgw/ctl/config_value.h"

namespace pxgw {
namespace {

constexpr size_t kMostTunnels = 64;

std::vector<Prefix> read_hosts(const Value& v) {
  std::vector<Prefix> hosts;
  for (const ListedPrefix& l : read_prefixes(v)) {
    if (l.prefix.bits != (l.prefix.version == 4 ? 32 : 128))
      l.at.fail(fmt::format("{} is a prefix; give addresses of hosts that run caravand", to_string(l.prefix)));
    hosts.push_back(l.prefix);
  }
  return hosts;
}

std::vector<uint16_t> read_tunnels(const Value& v) {
  std::vector<uint16_t> ports;
  for (const Value& x : v.list("UDP ports")) {
    ports.push_back(static_cast<uint16_t>(x.number(1, 65535)));
    if (ports.size() > kMostTunnels) x.fail(fmt::format("is one too many; give at most {} ports", kMostTunnels));
  }
  return ports;
}

}  // namespace

void set_caravan_defaults(Policy& p) {
  p.caravans.tunnels.assign(caravan::kTunnelPorts.begin(), caravan::kTunnelPorts.end());
}

void read_caravan(const Value& v, Config& c) {
  Caravans& p = c.policy.caravans;
  using Mode = Caravans::Mode;
  using Switch = std::pair<std::string_view, bool>;
  v.map("mode, hello, hosts, max_hosts, port, tunnels, spacing_us, reassemble", [&](const std::string& name, const Value& x) {
    if (name == "mode") {
      using Choice = std::pair<std::string_view, Mode>;
      p.mode = x.one_of(std::array{Choice{"off", Mode::kOff}, Choice{"observe", Mode::kObserve}, Choice{"on", Mode::kOn}});
    } else if (name == "hello") {
      p.hello = x.one_of(std::array{Switch{"off", false}, Switch{"on", true}});
    } else if (name == "hosts") {
      c.caravan.hosts = read_hosts(x);
    } else if (name == "max_hosts") {
      c.caravan.max_hosts = static_cast<uint32_t>(x.number(1, 1u << 20));
    } else if (name == "port") {
      p.port = static_cast<uint16_t>(x.number(1, 65535));
    } else if (name == "tunnels") {
      p.tunnels = read_tunnels(x);
    } else if (name == "reassemble") {
      p.reassemble = x.one_of(std::array{Switch{"off", false}, Switch{"on", true}});
    } else if (name == "spacing_us") {
      p.spacing = std::chrono::microseconds(x.number(0, 1000, "us"));
    } else {
      return false;
    }
    return true;
  });
}

}  // namespace pxgw
