// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/host/route.h"

#include <fmt/format.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "fpmtud/host/socket.h"

namespace fpmtud {
namespace {

// Marks our routes in the kernel's table, beside RTPROT_STATIC and its kin.
constexpr uint8_t kProtocol = 174;

size_t address_bytes(Family f) { return f == Family::kIpv4 ? 4 : 16; }

// One message, grown attribute by attribute.
class Message {
 public:
  Message(int type, int flags, uint32_t sequence, const Endpoint& to)
      : bytes_(NLMSG_LENGTH(sizeof(rtmsg))) {
    header().nlmsg_type = static_cast<uint16_t>(type);
    header().nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    header().nlmsg_seq = sequence;
    auto& r = route();
    r.rtm_family = to.family == Family::kIpv4 ? AF_INET : AF_INET6;
    r.rtm_dst_len = static_cast<uint8_t>(address_bytes(to.family) * 8);
    add(RTA_DST, to.address.data(), address_bytes(to.family));
  }
  void add(int type, const void* data, size_t n) {
    const size_t at = NLMSG_ALIGN(bytes_.size());
    bytes_.resize(at + RTA_LENGTH(n));
    rtattr a{static_cast<uint16_t>(RTA_LENGTH(n)), static_cast<uint16_t>(type)};
    std::memcpy(&bytes_[at], &a, sizeof a);
    std::memcpy(&bytes_[at + RTA_LENGTH(0)], data, n);
    header().nlmsg_len = static_cast<uint32_t>(bytes_.size());
  }
  rtmsg& route() { return *reinterpret_cast<rtmsg*>(&bytes_[NLMSG_HDRLEN]); }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  nlmsghdr& header() { return *reinterpret_cast<nlmsghdr*>(bytes_.data()); }
  std::vector<char> bytes_;
};

// The answer to `sequence`: the route message, or an errno (0: done).
struct Reply {
  int error = 0;
  std::vector<char> route;
};

Reply receive(int fd, uint32_t sequence) {
  alignas(nlmsghdr) char buffer[8192];
  for (;;) {
    const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
    if (n < 0) {
      if (errno == EINTR) continue;
      return {errno, {}};
    }
    auto left = static_cast<unsigned>(n);
    for (auto* h = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(h, left);
         h = NLMSG_NEXT(h, left)) {
      if (h->nlmsg_seq != sequence) continue;
      if (h->nlmsg_type == NLMSG_ERROR) return {-static_cast<nlmsgerr*>(NLMSG_DATA(h))->error, {}};
      return {0, {reinterpret_cast<char*>(h), reinterpret_cast<char*>(h) + h->nlmsg_len}};
    }
  }
}

uint16_t interface_mtu(uint32_t index) {
  ifreq r{};
  if (if_indextoname(index, r.ifr_name) == nullptr) return 0;
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool ok = fd >= 0 && ioctl(fd, SIOCGIFMTU, &r) == 0;
  if (fd >= 0) close(fd);
  return ok ? static_cast<uint16_t>(std::min(r.ifr_mtu, 65535)) : uint16_t{0};
}

}  // namespace

Routes::Routes() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  if (fd_ < 0) throw std::runtime_error(fmt::format("netlink: {}", std::strerror(errno)));
}

Routes::~Routes() { close(fd_); }

std::optional<Route> Routes::find(const Endpoint& to) {
  // Which route it is, then which way it leads: one request tells only the one or the other.
  Route found;
  for (const bool match : {false, true}) {
    Message ask(RTM_GETROUTE, 0, ++sequence_, to);
    ask.route().rtm_flags = match ? RTM_F_FIB_MATCH : 0;
    if (::send(fd_, ask.bytes().data(), ask.bytes().size(), 0) < 0) return {};
    Reply reply = receive(fd_, sequence_);
    if (reply.error != 0) return {};
    auto* h = reinterpret_cast<nlmsghdr*>(reply.route.data());
    auto* r = static_cast<rtmsg*>(NLMSG_DATA(h));
    auto left = static_cast<unsigned>(RTM_PAYLOAD(h));
    if (match) {
      found.ours = r->rtm_protocol == kProtocol && r->rtm_dst_len == address_bytes(to.family) * 8;
    }
    for (rtattr* a = RTM_RTA(r); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
      if (!match && a->rta_type == RTA_OIF) std::memcpy(&found.interface, RTA_DATA(a), 4);
      if (!match && a->rta_type == RTA_GATEWAY) {
        Endpoint g{.family = to.family};
        std::memcpy(g.address.data(), RTA_DATA(a), address_bytes(to.family));
        found.gateway = g;
      }
      if (match && a->rta_type == RTA_METRICS) {
        auto inner_left = static_cast<unsigned>(RTA_PAYLOAD(a));
        for (auto* b = static_cast<rtattr*>(RTA_DATA(a)); RTA_OK(b, inner_left);
             b = RTA_NEXT(b, inner_left)) {
          uint32_t value = 0;
          if (b->rta_type == RTAX_MTU) {
            std::memcpy(&value, RTA_DATA(b), sizeof value);
            found.mtu = static_cast<uint16_t>(std::min<uint32_t>(value, 65535));
          }
        }
      }
    }
  }
  if (found.interface == 0) return {};
  found.interface_mtu = interface_mtu(found.interface);
  if (found.interface_mtu == 0) return {};
  return found;
}

int Routes::change(int type, int flags, const Endpoint& to, const Route* via, uint16_t mtu) {
  Message m(type, NLM_F_ACK | flags, ++sequence_, to);
  m.route().rtm_table = RT_TABLE_MAIN;
  m.route().rtm_protocol = kProtocol;
  m.route().rtm_type = RTN_UNICAST;
  m.route().rtm_scope = RT_SCOPE_NOWHERE;
  if (via != nullptr) {
    m.route().rtm_scope =
        via->gateway || to.family == Family::kIpv6 ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
    if (via->gateway) m.add(RTA_GATEWAY, via->gateway->address.data(), address_bytes(to.family));
    m.add(RTA_OIF, &via->interface, sizeof via->interface);
    struct {
      rtattr head;
      uint32_t value;
    } metric{{static_cast<uint16_t>(RTA_LENGTH(4)), RTAX_MTU}, mtu};
    m.add(RTA_METRICS, &metric, sizeof metric);
  }
  if (::send(fd_, m.bytes().data(), m.bytes().size(), 0) < 0) return errno;
  return receive(fd_, sequence_).error;
}

std::string Routes::set(const Endpoint& to, uint16_t mtu) {
  const auto via = find(to);
  if (!via) return fmt::format("{}: no route to it", to_text(to));
  const int error = change(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, to, &*via, mtu);
  if (error == EPERM) return "--set-route: no right to change routes; run as root (CAP_NET_ADMIN)";
  if (error != 0)
    return fmt::format("{}: the route can't be set ({})", to_text(to), std::strerror(error));
  return "";
}

std::string Routes::unset(const Endpoint& to) {
  const int error = change(RTM_DELROUTE, 0, to, nullptr, 0);
  if (error == EPERM)
    return "--unset-route: no right to change routes; run as root (CAP_NET_ADMIN)";
  if (error == ESRCH || error == ENOENT)
    return fmt::format("{}: has no route that --set-route made", to_text(to));
  if (error != 0)
    return fmt::format("{}: the route can't be removed ({})", to_text(to), std::strerror(error));
  return "";
}

}  // namespace fpmtud
