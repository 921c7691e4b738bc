// SPDX-License-Identifier: BSD-3-Clause
// The kernel's routes, over netlink: which interface leads to a host, and a host route with an MTU
// that Linux TCP then uses. Looking up needs no privileges, changing CAP_NET_ADMIN. One thread.
#pragma once
#include <optional>
#include <string>

#include "fpmtud/core/base.h"

namespace fpmtud {

struct Route {
  uint32_t interface = 0;
  uint16_t interface_mtu = 0;  // at most 65535
  std::optional<Endpoint> gateway;
  bool ours = false;  // a host route that set_route made
  uint16_t mtu = 0;   // the route's own; 0: none
};

class Routes {
 public:
  Routes();  // throws std::runtime_error
  ~Routes();
  Routes(const Routes&) = delete;
  Routes& operator=(const Routes&) = delete;

  // Nothing: no route.
  std::optional<Route> find(const Endpoint& to);
  // Adds or replaces the host route; an empty text, or what went wrong and what to do.
  std::string set(const Endpoint& to, uint16_t mtu);
  // Removes it. Routes that others made are left alone.
  std::string unset(const Endpoint& to);

 private:
  int change(int type, int flags, const Endpoint& to, const Route* via, uint16_t mtu);
  int fd_ = -1;
  uint32_t sequence_ = 0;
};

}  // namespace fpmtud
