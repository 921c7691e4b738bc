// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/host/netlink.h"

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace caravan {
namespace {

// Marks what is ours in the kernel's tables, beside RTPROT_STATIC and its kin.
constexpr uint8_t kProtocol = 175;

uint8_t af_of(Family f) { return f == Family::kIpv4 ? AF_INET : AF_INET6; }
size_t bytes_of(Family f) { return f == Family::kIpv4 ? 4 : 16; }

}  // namespace

class Netlink::Message {
 public:
  template <typename T>
  Message(int type, int flags, const T& body) : bytes_(NLMSG_SPACE(sizeof body)) {
    header().nlmsg_type = static_cast<uint16_t>(type);
    header().nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    header().nlmsg_len = NLMSG_LENGTH(sizeof body);
    std::memcpy(&bytes_[NLMSG_HDRLEN], &body, sizeof body);
  }
  void add(int type, const void* data, size_t n) {
    const size_t at = NLMSG_ALIGN(header().nlmsg_len);
    bytes_.resize(at + RTA_SPACE(n));
    rtattr a{static_cast<uint16_t>(RTA_LENGTH(n)), static_cast<uint16_t>(type)};
    std::memcpy(&bytes_[at], &a, sizeof a);
    std::memcpy(&bytes_[at + RTA_LENGTH(0)], data, n);
    header().nlmsg_len = static_cast<uint32_t>(at + RTA_LENGTH(n));
  }
  template <typename T>
  void add(int type, T value) {
    add(type, &value, sizeof value);
  }
  nlmsghdr& header() { return *reinterpret_cast<nlmsghdr*>(bytes_.data()); }
  const char* data() const { return bytes_.data(); }

 private:
  std::vector<char> bytes_;
};

Netlink::Netlink() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  if (fd_ < 0) throw std::runtime_error(std::string("netlink: ") + std::strerror(errno));
}
Netlink::~Netlink() { close(fd_); }

int Netlink::ask(Message& m, std::string* reply) {
  m.header().nlmsg_seq = ++sequence_;
  if (reply == nullptr) m.header().nlmsg_flags |= NLM_F_ACK;
  if (send(fd_, m.data(), m.header().nlmsg_len, 0) < 0) return errno;
  alignas(nlmsghdr) char buffer[8192];
  for (;;) {
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    auto left = static_cast<unsigned>(n);
    for (auto* h = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(h, left);
         h = NLMSG_NEXT(h, left)) {
      if (h->nlmsg_seq != sequence_) continue;
      if (h->nlmsg_type == NLMSG_ERROR) return -static_cast<nlmsgerr*>(NLMSG_DATA(h))->error;
      if (reply != nullptr) {
        reply->assign(reinterpret_cast<char*>(h), h->nlmsg_len);
        return 0;
      }
    }
  }
}

std::optional<Netlink::Way> Netlink::way_to(const Address& to, uint32_t mark) {
  rtmsg r{};
  r.rtm_family = af_of(to.family);
  r.rtm_dst_len = static_cast<uint8_t>(bytes_of(to.family) * 8);
  Message m(RTM_GETROUTE, 0, r);
  m.add(RTA_DST, to.bytes.data(), bytes_of(to.family));
  m.add(RTA_MARK, mark);
  std::string reply;
  if (ask(m, &reply) != 0) return {};
  const auto* h = reinterpret_cast<const nlmsghdr*>(reply.data());
  Way way{{to.family, {}}, 0, 0};
  bool has_source = false;
  auto* route = static_cast<rtmsg*>(NLMSG_DATA(const_cast<nlmsghdr*>(h)));
  if (route->rtm_type != RTN_UNICAST) return {};
  auto left = static_cast<int>(RTM_PAYLOAD(h));
  for (rtattr* a = RTM_RTA(route); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
    if (a->rta_type == RTA_PREFSRC) {
      std::memcpy(way.source.bytes.data(), RTA_DATA(a), bytes_of(to.family));
      has_source = true;
    } else if (a->rta_type == RTA_OIF) {
      std::memcpy(&way.interface, RTA_DATA(a), sizeof way.interface);
    }
  }
  ifreq device{};
  if (!has_source || if_indextoname(way.interface, device.ifr_name) == nullptr) return {};
  const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (s < 0 || ioctl(s, SIOCGIFMTU, &device) != 0) device.ifr_mtu = 0;
  if (s >= 0) close(s);
  way.mtu = static_cast<unsigned>(device.ifr_mtu);
  return way.mtu != 0 ? std::optional(way) : std::nullopt;
}

int Netlink::link_up(const std::string& name, unsigned mtu) {
  ifinfomsg i{};
  i.ifi_index = static_cast<int>(if_nametoindex(name.c_str()));
  i.ifi_flags = i.ifi_change = IFF_UP;
  Message m(RTM_NEWLINK, 0, i);
  m.add(IFLA_MTU, uint32_t{mtu});
  return ask(m);
}

int Netlink::add_address(const std::string& device, const Address& address) {
  ifaddrmsg i{};
  i.ifa_family = AF_INET;
  i.ifa_prefixlen = 32;
  i.ifa_scope = RT_SCOPE_HOST;
  i.ifa_index = if_nametoindex(device.c_str());
  Message m(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, i);
  m.add(IFA_LOCAL, address.bytes.data(), 4);
  return ask(m);
}

namespace {

rtmsg route_of(Family family, uint8_t bits, uint8_t type) {
  rtmsg r{};
  r.rtm_family = af_of(family);
  r.rtm_dst_len = bits;
  r.rtm_table = RT_TABLE_UNSPEC;
  r.rtm_protocol = kProtocol;
  r.rtm_scope = type == RTN_UNICAST ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  if (family == Family::kIpv6) r.rtm_scope = RT_SCOPE_UNIVERSE;
  r.rtm_type = type;
  return r;
}

}  // namespace

int Netlink::add_default(unsigned table, const std::string& device, const Address& source) {
  Message m(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, route_of(source.family, 0, RTN_UNICAST));
  m.add(RTA_TABLE, uint32_t{table});
  m.add(RTA_OIF, uint32_t{if_nametoindex(device.c_str())});
  m.add(RTA_PREFSRC, source.bytes.data(), bytes_of(source.family));
  return ask(m);
}

int Netlink::del_default(unsigned table, Family family, const std::string& device) {
  Message m(RTM_DELROUTE, 0, route_of(family, 0, RTN_UNICAST));
  m.add(RTA_TABLE, uint32_t{table});
  m.add(RTA_OIF, uint32_t{if_nametoindex(device.c_str())});
  return ask(m);
}

int Netlink::add_throw(unsigned table, const Address& prefix, uint8_t bits) {
  Message m(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, route_of(prefix.family, bits, RTN_THROW));
  m.add(RTA_TABLE, uint32_t{table});
  m.add(RTA_DST, prefix.bytes.data(), bytes_of(prefix.family));
  return ask(m);
}

int Netlink::del_throw(unsigned table, const Address& prefix, uint8_t bits) {
  Message m(RTM_DELROUTE, 0, route_of(prefix.family, bits, RTN_THROW));
  m.add(RTA_TABLE, uint32_t{table});
  m.add(RTA_DST, prefix.bytes.data(), bytes_of(prefix.family));
  return ask(m);
}

namespace {

fib_rule_hdr rule_of(Family family) {
  fib_rule_hdr h{};
  h.family = af_of(family);
  h.action = FR_ACT_TO_TBL;
  return h;
}

template <typename Message>
void describe(Message& m, const Netlink::Rule& r) {
  m.add(FRA_PRIORITY, uint32_t{r.priority});
  m.add(FRA_TABLE, uint32_t{r.table});
  m.add(FRA_IIFNAME, "lo", 3);  // sent by this host itself
  m.add(FRA_IP_PROTO, uint8_t{IPPROTO_UDP});
  m.add(FRA_FWMARK, uint32_t{0});
  m.add(FRA_FWMASK, r.mark);
  if (r.suppress) m.add(FRA_SUPPRESS_PREFIXLEN, uint32_t{0});
  m.add(FRA_PROTOCOL, kProtocol);
}

}  // namespace

int Netlink::add_rule(const Rule& r) {
  Message m(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule_of(r.family));
  describe(m, r);
  return ask(m);
}

int Netlink::del_rule(const Rule& r) {
  Message m(RTM_DELRULE, 0, rule_of(r.family));
  describe(m, r);
  return ask(m);
}

}  // namespace caravan
