// SPDX-License-Identifier: BSD-3-Clause
// The Appliance's share in caravans: who takes them.
#include <arpa/inet.h>

#include <algorithm>
#include <stdexcept>

#include "pxgw/ctl/appliance.h"
#include "pxgw/ctl/clock.h"
#include "pxgw/ctl/log.h"
#include "pxgw/ctl/random.h"

namespace pxgw {
namespace {

caravan::Address address_of(const Prefix& p) {
  caravan::Address a{p.version == 4 ? caravan::Family::kIpv4 : caravan::Family::kIpv6, {}};
  std::copy_n(p.addr.begin(), p.version == 4 ? 4 : 16, a.bytes.begin());
  return a;
}

}  // namespace

void Appliance::make_caravan_hosts() {
  caravan_hosts_ = std::make_unique<CaravanHosts>(config_.caravan.max_hosts, random_value<caravan::Secret>(),
                                                  random_value<uint64_t>() | 1);
  set_caravan_hosts(config_);
}

// Those that the configuration names, for ever; those that it no longer names have to ask again.
void Appliance::set_caravan_hosts(const Config& config) {
  const auto& named = config.caravan.hosts;
  for (const Prefix& p : configured_hosts_)
    if (std::find(named.begin(), named.end(), p) == named.end()) caravan_hosts_->table.erase(address_of(p));
  uint16_t largest = 0;
  for (const PairConfig& pair : config.pairs) largest = std::max(largest, pair.inside.mtu);
  for (const Prefix& p : named)
    if (!caravan_hosts_->table.set({address_of(p), largest, caravan::Time::max()}, clock_now()))
      log(Level::kWarning, "caravan.hosts: no room for {}; give a larger caravan.max_hosts", to_string(p));
  configured_hosts_ = named;
}

Json Appliance::caravan(const Json& request) const {
  if (request.value("what", "") != "hosts") throw std::runtime_error("unknown request; known: hosts");
  const pxio::Nanos now = clock_now();
  Json hosts = Json::array();
  caravan_hosts_->table.for_each(now, [&](const caravan::Host& h) {
    char text[INET6_ADDRSTRLEN];
    inet_ntop(h.address.family == caravan::Family::kIpv4 ? AF_INET : AF_INET6, h.address.bytes.data(), text, sizeof text);
    const bool for_ever = h.until == caravan::Time::max();
    hosts.push_back({{"address", text}, {"largest", h.size},
                     {"expires_in_s", for_ever ? Json(nullptr)
                                               : Json(std::chrono::duration<double>(h.until - now).count())}});
  });
  std::sort(hosts.begin(), hosts.end());
  return {{"hosts", hosts}};
}

}  // namespace pxgw
