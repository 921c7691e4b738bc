// SPDX-License-Identifier: BSD-3-Clause
// Links, routes and rules of this host, by rtnetlink. Blocking; one thread.
#pragma once
#include <optional>
#include <string>

#include "caravan/core/format.h"

namespace caravan {

class Netlink {
 public:
  // Throws std::runtime_error.
  Netlink();
  ~Netlink();
  Netlink(const Netlink&) = delete;
  Netlink& operator=(const Netlink&) = delete;

  // How this host reaches an address, by the rules for packets that bear `mark`.
  struct Way {
    Address source;
    unsigned interface = 0;
    unsigned mtu = 0;  // of the interface
  };
  std::optional<Way> way_to(const Address& to, uint32_t mark);

  // All of these: 0, or an errno.
  int link_up(const std::string& name, unsigned mtu);
  // An IPv4 address that is this host's alone, never chosen as a source.
  int add_address(const std::string& device, const Address& address);
  // A default route of the table through the device, with that source.
  int add_default(unsigned table, const std::string& device, const Address& source);
  int del_default(unsigned table, Family family, const std::string& device);
  // The table doesn't speak for these: the rules go on.
  int add_throw(unsigned table, const Address& prefix, uint8_t bits);
  int del_throw(unsigned table, const Address& prefix, uint8_t bits);
  // Locally sent UDP that doesn't bear `mark` looks into `table`; `suppress`: but not at default
  // routes.
  struct Rule {
    Family family;
    unsigned priority, table;
    uint32_t mark;
    bool suppress;
  };
  int add_rule(const Rule& rule);
  int del_rule(const Rule& rule);

 private:
  class Message;
  int ask(Message& m, std::string* reply = nullptr);
  int fd_;
  uint32_t sequence_ = 0;
};

}  // namespace caravan
