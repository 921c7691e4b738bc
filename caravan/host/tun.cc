// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/host/tun.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "pxio/dp/checksum.h"

namespace caravan {
namespace {

// Newer than the headers of Debian 12 (Linux 6.2, include/uapi/linux/if_tun.h and virtio_net.h).
constexpr unsigned kUso4 = 0x20, kUso6 = 0x40;
constexpr uint8_t kGsoUdpL4 = 5;
constexpr uint16_t kUdpChecksumAt = 6;

// struct virtio_net_hdr of linux/virtio_net.h, which isn't C++.
struct VnetHeader {
  uint8_t flags, gso_type;
  uint16_t hdr_len, gso_size, csum_start, csum_offset;
};
constexpr uint8_t kNeedsChecksum = 1, kDataValid = 2;
static_assert(sizeof(VnetHeader) == Tun::kHeader);

}  // namespace

Tun::Tun(const std::string& name, bool batches) {
  fd_ = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd_ < 0)
    throw std::runtime_error(
        fmt::format("/dev/net/tun: {}; it takes root, and the module tun", std::strerror(errno)));
  ifreq r{};
  if (name.size() >= sizeof r.ifr_name) {
    close(fd_);
    throw std::runtime_error(
        fmt::format("--tun {}: longer than {} characters", name, sizeof r.ifr_name - 1));
  }
  std::memcpy(r.ifr_name, name.data(), name.size());
  r.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR | static_cast<short>(IFF_TUN_EXCL);
  if (ioctl(fd_, TUNSETIFF, &r) != 0) {
    const int error = errno;
    close(fd_);
    throw std::runtime_error(fmt::format("TUN device {}: {}{}", name, std::strerror(error),
                                         error == EBUSY
                                             ? "; another caravand runs, or --tun another name"
                                         : error == EPERM ? "; it takes CAP_NET_ADMIN"
                                                          : ""));
  }
  name_ = r.ifr_name;
  segments_ = batches && ioctl(fd_, TUNSETOFFLOAD, TUN_F_CSUM | kUso4 | kUso6) == 0;
}

Tun::~Tun() { close(fd_); }

bool Tun::write(const Group& g) {
  VnetHeader h{};
  if (g.payloads.size() > 1) {
    h.flags = kNeedsChecksum;
    h.gso_type = kGsoUdpL4;
    h.gso_size = static_cast<uint16_t>(g.size);
    h.hdr_len = static_cast<uint16_t>(g.header_bytes);
    h.csum_start = static_cast<uint16_t>(g.header_bytes - kUdpBytes);
    h.csum_offset = kUdpChecksumAt;
  } else if (g.proved) {
    h.flags = kDataValid;
  }
  iovec v[2 + kMostSegments];
  v[0] = {&h, sizeof h};
  v[1] = {const_cast<uint8_t*>(g.headers.data()), g.header_bytes};
  int n = 2;
  for (const Bytes p : g.payloads)
    if (!p.empty()) v[n++] = {const_cast<uint8_t*>(p.data()), p.size()};
  return writev(fd_, v, n) > 0;
}

bool Tun::read(MutableBytes room, Read& out) {
  for (;;) {
    const ssize_t n = ::read(fd_, room.data(), room.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= static_cast<ssize_t>(sizeof(VnetHeader))) return false;
    VnetHeader h;
    std::memcpy(&h, room.data(), sizeof h);
    out.packet = room.subspan(sizeof h, static_cast<size_t>(n) - sizeof h);
    out.segment = h.gso_type == kGsoUdpL4 ? h.gso_size : 0;
    if ((h.flags & kNeedsChecksum) != 0 && out.segment == 0) {
      // The field holds the pseudo-header's sum.
      const size_t field = size_t{h.csum_start} + h.csum_offset;
      if (field + 2 > out.packet.size()) return false;
      const auto sum = static_cast<uint16_t>(
          ~pxio::sum_bytes(&out.packet[h.csum_start], out.packet.size() - h.csum_start));
      const uint16_t checksum = sum != 0 ? sum : uint16_t{0xffff};
      std::memcpy(&out.packet[field], &checksum, sizeof checksum);
    }
    return true;
  }
}

}  // namespace caravan
