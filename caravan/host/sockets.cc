// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/host/sockets.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace caravan {
namespace {

// A burst at 10 Gb/s while this process waits for its core.
constexpr int kSocketBuffer = 8 << 20;
// The network card's queue drains in less.
constexpr int kWaitMs = 5;

socklen_t to_sockaddr(const Address& a, uint16_t port, sockaddr_storage& out) {
  out = {};
  if (a.family == Family::kIpv4) {
    auto& s = reinterpret_cast<sockaddr_in&>(out);
    s.sin_family = AF_INET;
    s.sin_port = htons(port);
    std::memcpy(&s.sin_addr, a.bytes.data(), 4);
    return sizeof s;
  }
  auto& s = reinterpret_cast<sockaddr_in6&>(out);
  s.sin6_family = AF_INET6;
  s.sin6_port = htons(port);
  std::memcpy(&s.sin6_addr, a.bytes.data(), 16);
  return sizeof s;
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

void set(int fd, int level, int option, int value, const char* what) {
  if (setsockopt(fd, level, option, &value, sizeof value) != 0) fail(what);
}

int af_of(Family f) { return f == Family::kIpv4 ? AF_INET : AF_INET6; }

void enlarge(int fd, int forced, int plain) {
  if (setsockopt(fd, SOL_SOCKET, forced, &kSocketBuffer, sizeof kSocketBuffer) != 0)
    setsockopt(fd, SOL_SOCKET, plain, &kSocketBuffer, sizeof kSocketBuffer);
}

}  // namespace

struct PortSocket::Buffers {
  std::vector<uint8_t> room = std::vector<uint8_t>(kBatch * kRoom);
  std::array<std::array<uint8_t, kControl>, kBatch> control;
  std::array<sockaddr_storage, kBatch> from;
  std::array<iovec, kBatch> parts;
  std::array<mmsghdr, kBatch> messages;
};

PortSocket::PortSocket(Family family, uint16_t port, uint32_t mark)
    : family_(family),
      fd_(socket(af_of(family), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      buffers_(std::make_unique<Buffers>()) {
  if (fd_ < 0) fail("socket");
  try {
    set(fd_, SOL_SOCKET, SO_MARK, static_cast<int>(mark), "SO_MARK; it takes CAP_NET_ADMIN");
    enlarge(fd_, SO_RCVBUFFORCE, SO_RCVBUF);
    if (family == Family::kIpv4) {
      set(fd_, IPPROTO_IP, IP_PKTINFO, 1, "IP_PKTINFO");
      set(fd_, IPPROTO_IP, IP_RECVTOS, 1, "IP_RECVTOS");
      set(fd_, IPPROTO_IP, IP_RECVTTL, 1, "IP_RECVTTL");
    } else {
      set(fd_, IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY");
      set(fd_, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1, "IPV6_RECVPKTINFO");
      set(fd_, IPPROTO_IPV6, IPV6_RECVTCLASS, 1, "IPV6_RECVTCLASS");
      set(fd_, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, "IPV6_RECVHOPLIMIT");
    }
    sockaddr_storage any;
    const socklen_t n = to_sockaddr({family, {}}, port, any);
    if (bind(fd_, reinterpret_cast<sockaddr*>(&any), n) != 0)
      fail(fmt::format("UDP port {}", port));
  } catch (...) {
    close(fd_);
    throw;
  }
}

PortSocket::~PortSocket() { close(fd_); }

bool PortSocket::send(const Address& to, uint16_t port, Bytes payload) {
  sockaddr_storage a;
  const socklen_t n = to_sockaddr(to, port, a);
  return sendto(fd_, payload.data(), payload.size(), 0, reinterpret_cast<sockaddr*>(&a), n) >= 0;
}

const std::vector<Received>& PortSocket::receive() {
  Buffers& b = *buffers_;
  for (size_t i = 0; i < kBatch; ++i) {
    b.parts[i] = {&b.room[i * kRoom], kRoom};
    b.messages[i] = {};
    msghdr& m = b.messages[i].msg_hdr;
    m.msg_name = &b.from[i];
    m.msg_namelen = sizeof b.from[i];
    m.msg_iov = &b.parts[i];
    m.msg_iovlen = 1;
    m.msg_control = b.control[i].data();
    m.msg_controllen = kControl;
  }
  received_.clear();
  // An ICMP error about what was sent before stands in front of what has come.
  int n = -1;
  for (int tries = 0; n < 0 && tries < 4; ++tries) {
    n = recvmmsg(fd_, b.messages.data(), kBatch, 0, nullptr);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
  }
  for (int i = 0; i < n; ++i) {
    msghdr& m = b.messages[i].msg_hdr;
    Received r;
    r.payload = {&b.room[static_cast<size_t>(i) * kRoom], b.messages[i].msg_len};
    r.truncated = (m.msg_flags & MSG_TRUNC) != 0;
    r.from.family = r.to.family = family_;
    if (family_ == Family::kIpv4) {
      const auto& s = reinterpret_cast<const sockaddr_in&>(b.from[i]);
      std::memcpy(r.from.bytes.data(), &s.sin_addr, 4);
      r.from_port = ntohs(s.sin_port);
    } else {
      const auto& s = reinterpret_cast<const sockaddr_in6&>(b.from[i]);
      std::memcpy(r.from.bytes.data(), &s.sin6_addr, 16);
      r.from_port = ntohs(s.sin6_port);
    }
    for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
      const void* data = CMSG_DATA(c);
      if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
        std::memcpy(r.to.bytes.data(), &static_cast<const in_pktinfo*>(data)->ipi_addr, 4);
      } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
        std::memcpy(r.to.bytes.data(), &static_cast<const in6_pktinfo*>(data)->ipi6_addr, 16);
      } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
        r.tos = *static_cast<const uint8_t*>(data);
      } else {
        int value = 0;
        if (c->cmsg_len < CMSG_LEN(sizeof value)) continue;
        std::memcpy(&value, data, sizeof value);
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
          r.tos = static_cast<uint8_t>(value);
        if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
            (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT))
          r.ttl = static_cast<uint8_t>(value);
      }
    }
    received_.push_back(r);
  }
  return received_;
}

PacketSender::PacketSender(Family family, uint32_t mark)
    : family_(family),
      fd_(socket(af_of(family), SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_RAW)) {
  if (fd_ < 0) fail("raw socket; it takes CAP_NET_RAW");
  try {
    set(fd_, SOL_SOCKET, SO_MARK, static_cast<int>(mark), "SO_MARK; it takes CAP_NET_ADMIN");
    if (family == Family::kIpv6) set(fd_, IPPROTO_IPV6, IPV6_HDRINCL, 1, "IPV6_HDRINCL");
    enlarge(fd_, SO_SNDBUFFORCE, SO_SNDBUF);
  } catch (...) {
    close(fd_);
    throw;
  }
}

PacketSender::~PacketSender() { close(fd_); }

size_t PacketSender::send(std::span<const Bytes> packets) {
  constexpr size_t kBatch = 64;
  size_t taken = 0;
  std::array<mmsghdr, kBatch> messages;
  std::array<iovec, kBatch> parts;
  std::array<sockaddr_storage, kBatch> to;
  while (!packets.empty()) {
    const size_t n = std::min(packets.size(), kBatch);
    for (size_t i = 0; i < n; ++i) {
      Address dst{family_, {}};
      const bool v4 = family_ == Family::kIpv4;
      std::memcpy(dst.bytes.data(), &packets[i][v4 ? 16 : 24], v4 ? 4 : 16);
      parts[i] = {const_cast<uint8_t*>(packets[i].data()), packets[i].size()};
      messages[i] = {};
      messages[i].msg_hdr.msg_namelen = to_sockaddr(dst, 0, to[i]);
      messages[i].msg_hdr.msg_name = &to[i];
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    const int sent = sendmmsg(fd_, messages.data(), static_cast<unsigned>(n), 0);
    if (sent > 0) {
      taken += static_cast<size_t>(sent);
      packets = packets.subspan(static_cast<size_t>(sent));
      continue;
    }
    pollfd p{fd_, POLLOUT, 0};
    if (errno == EINTR || ((errno == EAGAIN || errno == EWOULDBLOCK) && poll(&p, 1, kWaitMs) == 1))
      continue;
    packets = packets.subspan(1);  // this one can't be sent
  }
  return taken;
}

}  // namespace caravan
