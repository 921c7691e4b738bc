// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/ctl/receive_merging.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pxio {
namespace {

bool ethtool(int fd, const std::string& ifname, ethtool_value& v) noexcept {
  ifreq r{};
  std::memcpy(r.ifr_name, ifname.data(), std::min<size_t>(ifname.size(), IFNAMSIZ - 1));
  r.ifr_data = reinterpret_cast<char*>(&v);
  return ioctl(fd, SIOCETHTOOL, &r) == 0;
}

}  // namespace

ReceiveMerging::ReceiveMerging(const std::string& ifname, bool gro)
    : ifname_(ifname), fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)), ifindex_(if_nametoindex(ifname.c_str())),
      wanted_(gro) {
  if (get(Kind::kGro) != gro) gro_changed_ = set(Kind::kGro, gro);
  if (get(Kind::kLro)) lro_changed_ = set(Kind::kLro, false);
}

ReceiveMerging::~ReceiveMerging() {
  char now[IF_NAMESIZE];
  if (if_indextoname(ifindex_, now) == nullptr) return;
  ifname_ = now;
  if (gro_changed_) set(Kind::kGro, !wanted_);
  if (lro_changed_) set(Kind::kLro, true);
}

bool ReceiveMerging::get(Kind k) const noexcept {
  ethtool_value v{.cmd = k == Kind::kGro ? uint32_t{ETHTOOL_GGRO} : uint32_t{ETHTOOL_GFLAGS}, .data = 0};
  if (!ethtool(fd_.get(), ifname_, v)) return false;
  return k == Kind::kGro ? v.data != 0 : (v.data & ETH_FLAG_LRO) != 0;
}

bool ReceiveMerging::set(Kind k, bool on) noexcept {
  ethtool_value v{.cmd = ETHTOOL_SGRO, .data = on};
  if (k == Kind::kLro) {
    v = {.cmd = ETHTOOL_GFLAGS, .data = 0};
    if (!ethtool(fd_.get(), ifname_, v)) return false;
    v = {.cmd = ETHTOOL_SFLAGS, .data = on ? v.data | ETH_FLAG_LRO : v.data & ~uint32_t{ETH_FLAG_LRO}};
  }
  if (ethtool(fd_.get(), ifname_, v)) return true;
  if (k == Kind::kGro) error_ = errno;
  return false;
}

OffloadState ReceiveMerging::state() const {
  if (get(Kind::kLro)) {
    return {"lro", false,
            fmt::format("the driver's own LRO is on, whose packets can't be passed on; 'ethtool -K {} lro off' turns "
                        "it off",
                        ifname_)};
  }
  const bool on = get(Kind::kGro);
  const auto failed = [&](const char* is, const char* to) {
    return fmt::format("GRO is {} at the interface{}; 'ethtool -K {} gro {}' changes that", is,
                       error_ != 0 ? fmt::format(" ({})", std::strerror(error_)) : "", ifname_, to);
  };
  if (on && wanted_) return {"lro", true, "the kernel's GRO: packets of up to 64 KB"};
  if (on) return {"lro", true, failed("on", "off")};
  return {"lro", false, wanted_ ? failed("off", "on") : "off by configuration"};
}

}  // namespace pxio
