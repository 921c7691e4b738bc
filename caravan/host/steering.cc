// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/host/steering.h"

#include <fmt/format.h>
#include <linux/rtnetlink.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace caravan {
namespace {

// A program chooses an interface for multicast; we couldn't tell which.
Address multicast(Family f) {
  Address a{f, {}};
  a.bytes[0] = f == Family::kIpv4 ? 224 : 0xff;
  return a;
}
uint8_t multicast_bits(Family f) { return f == Family::kIpv4 ? 4 : 8; }

}  // namespace

Steering::Steering(Netlink& netlink, const Config& config, const std::string& device,
                   const std::vector<Family>& families)
    : netlink_(netlink), config_(config), device_(device), families_(families) {
  for (const Family f : families_) {
    remove(f);
    int error = netlink_.add_throw(config_.table, multicast(f), multicast_bits(f));
    if (error == 0)
      error = netlink_.add_rule({f, config_.priority, RT_TABLE_MAIN, config_.mark, true});
    if (error == 0)
      error = netlink_.add_rule({f, config_.priority + 1, config_.table, config_.mark, false});
    if (error != 0) {
      for (const Family g : families_) remove(g);
      throw std::runtime_error(
          fmt::format("rules {} and {} for UDP: {}; it takes CAP_NET_ADMIN and Linux 4.17, or "
                      "--priority another, or --no-outbound",
                      config_.priority, config_.priority + 1, std::strerror(error)));
    }
  }
}

Steering::~Steering() {
  for (const Family f : families_) remove(f);
}

void Steering::remove(Family f) {
  // More than one, if somebody was killed in between.
  for (int i = 0; i < 8 && netlink_.del_rule(
                               {f, config_.priority + 1, config_.table, config_.mark, false}) == 0;
       ++i) {
  }
  for (int i = 0;
       i < 8 && netlink_.del_rule({f, config_.priority, RT_TABLE_MAIN, config_.mark, true}) == 0;
       ++i) {
  }
  set(f, false, {});
  netlink_.del_throw(config_.table, multicast(f), multicast_bits(f));
}

bool Steering::set(Family f, bool on, const Address& source) {
  bool& is = on_[f == Family::kIpv4 ? 0 : 1];
  if (on) {
    is = netlink_.add_default(config_.table, device_, source) == 0;
    return is;
  }
  const int error = is ? netlink_.del_default(config_.table, f, device_) : 0;
  is = false;
  return error == 0 || error == ESRCH;
}

}  // namespace caravan
