// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/host/socket.h"

#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace fpmtud {
namespace {

constexpr int kBufferBytes = 4 << 20;
constexpr size_t kMaxErrors = 1024;
constexpr size_t kQuote = 64;
constexpr size_t kEchoHeader = 8;

int af(Family f) { return f == Family::kIpv4 ? AF_INET : AF_INET6; }
int level(Family f) { return f == Family::kIpv4 ? IPPROTO_IP : IPPROTO_IPV6; }

uint16_t checksum(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  uint32_t sum = 0;
  for (const auto part : {a, b})  // a's length is even
    for (size_t i = 0; i < part.size(); ++i) sum += i % 2 == 0 ? part[i] << 8 : part[i];
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error(text); }

}  // namespace

sockaddr_storage to_sockaddr(const Endpoint& e, socklen_t& length) {
  sockaddr_storage s{};
  if (e.family == Family::kIpv4) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(e.port);
    std::memcpy(&a.sin_addr, e.address.data(), 4);
    std::memcpy(&s, &a, length = sizeof a);
  } else {
    sockaddr_in6 a{};
    a.sin6_family = AF_INET6;
    a.sin6_port = htons(e.port);
    std::memcpy(&a.sin6_addr, e.address.data(), 16);
    std::memcpy(&s, &a, length = sizeof a);
  }
  return s;
}

Endpoint to_endpoint(const sockaddr* s) {
  Endpoint e;
  if (s->sa_family == AF_INET6) {
    sockaddr_in6 a;
    std::memcpy(&a, s, sizeof a);
    e.family = Family::kIpv6;
    e.port = ntohs(a.sin6_port);
    std::memcpy(e.address.data(), &a.sin6_addr, 16);
  } else {
    sockaddr_in a;
    std::memcpy(&a, s, sizeof a);
    e.port = ntohs(a.sin_port);
    std::memcpy(e.address.data(), &a.sin_addr, 4);
  }
  return e;
}

std::string to_text(const Endpoint& e) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(af(e.family), e.address.data(), text, sizeof text);
  return text;
}

std::optional<Endpoint> parse_address(const std::string& text) {
  Endpoint e;
  if (inet_pton(AF_INET, text.c_str(), e.address.data()) == 1) return e;
  e.family = Family::kIpv6;
  if (inet_pton(AF_INET6, text.c_str(), e.address.data()) == 1) return e;
  return {};
}

Socket::Socket(Transport transport, Family family, const std::optional<Endpoint>& at)
    : transport_(transport), family_(family), buffer_(65536 + 128) {
  const bool v4 = family == Family::kIpv4;
  if (transport == Transport::kUdp) {
    fd_ = socket(af(family), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
    if (fd_ < 0)
      fail(fmt::format("IPv{}: no socket ({}); is the family switched off?", v4 ? 4 : 6,
                       std::strerror(errno)));
  } else {
    const int protocol = v4 ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6};
    fd_ = socket(af(family), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
    if (fd_ < 0) {
      fd_ = socket(af(family), SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
      raw_ = true;
    }
    if (fd_ < 0)
      fail(fmt::format(
          "--fallback: no right to send ICMP echo ({}); run as root, or admit this user's group by "
          "sysctl net.ipv4.ping_group_range",
          std::strerror(errno)));
  }
  try {
    if (v4) {
      set(IPPROTO_IP, IP_RECVERR, 1, "IP_RECVERR");
      set(IPPROTO_IP, IP_RECVFRAGSIZE, 1, "IP_RECVFRAGSIZE");
      set(IPPROTO_IP, IP_RECVTTL, 1, "IP_RECVTTL");
      set(IPPROTO_IP, IP_PKTINFO, 1, "IP_PKTINFO");
    } else {
      if (!raw_) set(IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY");
      set(IPPROTO_IPV6, IPV6_RECVERR, 1, "IPV6_RECVERR");
      set(IPPROTO_IPV6, IPV6_RECVFRAGSIZE, 1, "IPV6_RECVFRAGSIZE");
      set(IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, "IPV6_RECVHOPLIMIT");
      set(IPPROTO_IPV6, IPV6_RECVPKTINFO, 1, "IPV6_RECVPKTINFO");
      set(IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE, "IPV6_PMTUDISC_PROBE");
      set(IPPROTO_IPV6, IPV6_DONTFRAG, 1, "IPV6_DONTFRAG");
    }
    // A round may be there at once. Beyond the system's limit only with privileges.
    for (const auto& [force, plain] :
         {std::pair{SO_RCVBUFFORCE, SO_RCVBUF}, std::pair{SO_SNDBUFFORCE, SO_SNDBUF}})
      if (setsockopt(fd_, SOL_SOCKET, force, &kBufferBytes, sizeof kBufferBytes) != 0)
        setsockopt(fd_, SOL_SOCKET, plain, &kBufferBytes, sizeof kBufferBytes);
    if (at) {
      socklen_t length = 0;
      const sockaddr_storage s = to_sockaddr(*at, length);
      if (bind(fd_, reinterpret_cast<const sockaddr*>(&s), length) != 0)
        fail(fmt::format("{} port {}: {}; choose by --listen and --port", to_text(*at), at->port,
                         std::strerror(errno)));
    }
  } catch (...) {
    close(fd_);
    throw;
  }
}

Socket::~Socket() { close(fd_); }

uint16_t Socket::port() const {
  sockaddr_storage s{};
  socklen_t length = sizeof s;
  if (getsockname(fd_, reinterpret_cast<sockaddr*>(&s), &length) != 0) return 0;
  return to_endpoint(reinterpret_cast<const sockaddr*>(&s)).port;
}

void Socket::set(int at_level, int option, int value, const char* what) {
  if (setsockopt(fd_, at_level, option, &value, sizeof value) != 0)
    fail(fmt::format("{}: {}; Linux 4.13 or later is needed", what, std::strerror(errno)));
}

SendResult Socket::send(const Endpoint& to, std::span<const uint8_t> payload, bool fragmentable,
                        const Local* from) {
  if (family_ == Family::kIpv4 && fragmentable_ != fragmentable) {
    // Both look at the interface's MTU alone, and not at what ICMP errors or routes say.
    set(IPPROTO_IP, IP_MTU_DISCOVER, fragmentable ? IP_PMTUDISC_OMIT : IP_PMTUDISC_PROBE,
        "IP_MTU_DISCOVER");
    fragmentable_ = fragmentable;
  }
  socklen_t length = 0;
  sockaddr_storage name = to_sockaddr(to, length);
  uint8_t echo[kEchoHeader] = {};
  iovec parts[2] = {{echo, 0}, {const_cast<uint8_t*>(payload.data()), payload.size()}};
  if (transport_ == Transport::kEcho) {
    echo[0] = family_ == Family::kIpv4 ? uint8_t{ICMP_ECHO} : uint8_t{ICMP6_ECHO_REQUEST};
    echo[4] = static_cast<uint8_t>(getpid() >> 8);
    echo[5] = static_cast<uint8_t>(getpid());
    // IPv6's is the kernel's affair.
    const uint16_t sum = family_ == Family::kIpv4 ? checksum(echo, payload) : uint16_t{0};
    echo[2] = static_cast<uint8_t>(sum >> 8);
    echo[3] = static_cast<uint8_t>(sum);
    parts[0].iov_len = sizeof echo;
    if (raw_) {  // a raw socket takes the port for a protocol
      if (family_ == Family::kIpv6) reinterpret_cast<sockaddr_in6*>(&name)->sin6_port = 0;
    }
  }
  msghdr m{};
  m.msg_name = &name;
  m.msg_namelen = length;
  m.msg_iov = parts;
  m.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(in6_pktinfo))] = {};
  if (from != nullptr) {
    m.msg_control = control;
    cmsghdr* c = reinterpret_cast<cmsghdr*>(control);
    c->cmsg_level = level(family_);
    if (family_ == Family::kIpv4) {
      in_pktinfo info{};
      std::memcpy(&info.ipi_spec_dst, from->address.data(), 4);
      c->cmsg_type = IP_PKTINFO;
      c->cmsg_len = CMSG_LEN(sizeof info);
      std::memcpy(CMSG_DATA(c), &info, sizeof info);
      m.msg_controllen = CMSG_SPACE(sizeof info);
    } else {
      in6_pktinfo info{};
      std::memcpy(&info.ipi6_addr, from->address.data(), 16);
      // Link-local addresses mean something on their interface only.
      if (from->address[0] == 0xfe && (from->address[1] & 0xc0) == 0x80)
        info.ipi6_ifindex = from->interface;
      c->cmsg_type = IPV6_PKTINFO;
      c->cmsg_len = CMSG_LEN(sizeof info);
      std::memcpy(CMSG_DATA(c), &info, sizeof info);
      m.msg_controllen = CMSG_SPACE(sizeof info);
    }
  }
  // An ICMP error about an earlier datagram, whoever it was for, fails the next call.
  for (int attempt = 0; attempt < 4; ++attempt) {
    if (sendmsg(fd_, &m, MSG_NOSIGNAL) >= 0) return SendResult::kSent;
    if (errno == EAGAIN || errno == ENOBUFS) return SendResult::kAgain;
    const bool too_big = errno == EMSGSIZE;
    const size_t before = errors_.size();
    while (read_error_queue()) {
    }
    if (too_big)
      for (size_t i = before; i < errors_.size(); ++i)
        if (errors_[i].local && errors_[i].kind == PathError::Kind::kTooBig)
          return SendResult::kTooBig;
  }
  return SendResult::kFailed;
}

std::optional<Datagram> Socket::receive() {
  for (;;) {
    sockaddr_storage name{};
    iovec part{buffer_.data(), buffer_.size()};
    alignas(cmsghdr) char control[256];
    msghdr m{};
    m.msg_name = &name;
    m.msg_namelen = sizeof name;
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(fd_, &m, 0);
    if (n < 0) {
      if (errno == EAGAIN) return {};
      if (!read_error_queue() && errno != EINTR && errno != ECONNREFUSED && errno != EMSGSIZE &&
          errno != EHOSTUNREACH && errno != ENETUNREACH)
        return {};
      continue;
    }
    Datagram d;
    d.from = to_endpoint(reinterpret_cast<sockaddr*>(&name));
    d.payload = {buffer_.data(), static_cast<size_t>(n)};
    for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
      int value = 0;
      if (c->cmsg_len >= CMSG_LEN(sizeof value)) std::memcpy(&value, CMSG_DATA(c), sizeof value);
      if (c->cmsg_level == IPPROTO_IP) {
        if (c->cmsg_type == IP_RECVFRAGSIZE) d.fragment = static_cast<uint16_t>(value);
        if (c->cmsg_type == IP_TTL) d.ttl = static_cast<uint8_t>(value);
        if (c->cmsg_type == IP_PKTINFO) {
          in_pktinfo info;
          std::memcpy(&info, CMSG_DATA(c), sizeof info);
          std::memcpy(d.local.address.data(), &info.ipi_addr, 4);
          d.local.interface = static_cast<uint32_t>(info.ipi_ifindex);
        }
      } else if (c->cmsg_level == IPPROTO_IPV6) {
        if (c->cmsg_type == IPV6_RECVFRAGSIZE) d.fragment = static_cast<uint16_t>(value);
        if (c->cmsg_type == IPV6_HOPLIMIT) d.ttl = static_cast<uint8_t>(value);
        if (c->cmsg_type == IPV6_PKTINFO) {
          in6_pktinfo info;
          std::memcpy(&info, CMSG_DATA(c), sizeof info);
          std::memcpy(d.local.address.data(), &info.ipi6_addr, 16);
          d.local.interface = info.ipi6_ifindex;
        }
      }
    }
    if (transport_ == Transport::kUdp) return d;
    // Echo replies alone; a raw IPv4 socket delivers the IP header, too.
    size_t skip = kEchoHeader;
    if (raw_ && family_ == Family::kIpv4 && !d.payload.empty())
      skip += static_cast<size_t>(d.payload[0] & 15) * 4;
    if (d.payload.size() < skip) continue;
    const uint8_t type = d.payload[skip - kEchoHeader];
    if (type != (family_ == Family::kIpv4 ? uint8_t{ICMP_ECHOREPLY} : uint8_t{ICMP6_ECHO_REPLY}))
      continue;
    d.payload = d.payload.subspan(skip);
    return d;
  }
}

std::optional<PathError> Socket::next_error() {
  while (errors_.size() < kMaxErrors && read_error_queue()) {
  }
  if (errors_.empty()) return {};
  PathError e = std::move(errors_.front());
  errors_.pop_front();
  return e;
}

bool Socket::read_error_queue() {
  sockaddr_storage name{};
  uint8_t quote[kQuote + kEchoHeader];
  iovec part{quote, sizeof quote};
  alignas(cmsghdr) char control[512];
  msghdr m{};
  m.msg_name = &name;
  m.msg_namelen = sizeof name;
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(fd_, &m, MSG_ERRQUEUE);
  if (n < 0) return false;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    if (!(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) &&
        !(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
      continue;
    sock_extended_err e;
    std::memcpy(&e, CMSG_DATA(c), sizeof e);
    PathError p;
    p.local = e.ee_origin == SO_EE_ORIGIN_LOCAL;
    if (e.ee_errno == EMSGSIZE) {
      p.kind = PathError::Kind::kTooBig;
      p.mtu = static_cast<uint16_t>(std::min<uint32_t>(e.ee_info, 65535));
    } else if (e.ee_errno == ECONNREFUSED) {
      p.kind = PathError::Kind::kRefused;
    }
    if (m.msg_namelen > 0) p.to = to_endpoint(reinterpret_cast<sockaddr*>(&name));
    const size_t skip = transport_ == Transport::kEcho ? kEchoHeader : 0;
    if (static_cast<size_t>(n) > skip && !p.local) p.quote.assign(quote + skip, quote + n);
    // A flood of forged errors takes no memory.
    if (errors_.size() < kMaxErrors) errors_.push_back(std::move(p));
  }
  return true;
}

}  // namespace fpmtud
