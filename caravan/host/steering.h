// SPDX-License-Identifier: BSD-3-Clause
// Which packets of local programs pass through the TUN device: UDP to destinations that only a
// default route leads to, while there is somebody to bundle for. Rules come before those of the
// main table:
//
//   P    local UDP: main, without its default routes  (hosts inside, VPNs' routes: as ever)
//   P+1  local UDP: our table, which has a default route through the TUN device, or none
//
// Rules that outlive this process find an empty table, and the main one's turn comes: all routes of
// ours are through the device, which goes when the process does, or say that the rules go on. One
// thread.
#pragma once
#include <string>
#include <vector>

#include "caravan/host/netlink.h"

namespace caravan {

class Steering {
 public:
  struct Config {
    unsigned table = 7475;
    unsigned priority = 32700;
    // Of the packets that we send ourselves; one bit of the mark, so that others may use the rest.
    uint32_t mark = 0x40000000;
  };
  // Takes away what an earlier one left behind, and sets up the rules for the families. Throws
  // std::runtime_error with one line that says what to do.
  Steering(Netlink& netlink, const Config& config, const std::string& device,
           const std::vector<Family>& families);
  // Takes all of it away.
  ~Steering();
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;

  // Whether the family's packets come to us, from that source. False: it couldn't be changed.
  bool set(Family family, bool on, const Address& source);
  bool is_on(Family family) const { return on_[family == Family::kIpv4 ? 0 : 1]; }

 private:
  void remove(Family family);
  Netlink& netlink_;
  Config config_;
  std::string device_;
  std::vector<Family> families_;
  bool on_[2] = {false, false};
};

}  // namespace caravan
