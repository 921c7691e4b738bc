// SPDX-License-Identifier: BSD-3-Clause
#include "bench/nic/tap.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "pxio/dp/kernel_port.h"

namespace softnic {

using pxio::VnetHeader;

namespace {

// Frames that wait for the NIC: bursts of many connections at once.
constexpr int kQueueLength = 4096;

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw std::runtime_error(fmt::format("TAP device {}: {}", name, what));
}

// The thread's network namespace while this lives.
class Inside {
 public:
  Inside(const std::string& name, const std::string& netns) {
    if (netns.empty()) return;
    home_ = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    const int there = open(("/run/netns/" + netns).c_str(), O_RDONLY | O_CLOEXEC);
    if (there < 0)
      fail(name, fmt::format("no network namespace {}; 'ip netns add {}' makes it", netns, netns));
    if (home_ < 0 || setns(there, CLONE_NEWNET) != 0) {
      const int why = errno;
      close(there);
      fail(name, fmt::format("no way into network namespace {}: {}", netns, std::strerror(why)));
    }
    close(there);
  }
  ~Inside() {
    if (home_ < 0) return;
    setns(home_, CLONE_NEWNET);
    close(home_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  int home_ = -1;
};

void bring_up(const TapOptions& o) {
  const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const auto set = [&](unsigned long what, const char* text, auto change) {
    ifreq r{};
    std::memcpy(r.ifr_name, o.name.data(), o.name.size());
    change(r);
    if (ioctl(s, what, &r) == 0) return;
    const int why = errno;
    close(s);
    fail(o.name, fmt::format("{}: {}", text, std::strerror(why)));
  };
  set(SIOCSIFMTU, "its MTU can't be set", [&](ifreq& r) { r.ifr_mtu = o.mtu; });
  set(SIOCSIFTXQLEN, "its queue can't be set", [](ifreq& r) { r.ifr_qlen = kQueueLength; });
  set(SIOCSIFFLAGS, "it can't be brought up", [](ifreq& r) { r.ifr_flags = IFF_UP; });
  close(s);
}

int open_tap(const TapOptions& o) {
  if (o.name.empty() || o.name.size() >= IFNAMSIZ)
    fail(o.name, fmt::format("a name of 1 to {} characters is wanted", IFNAMSIZ - 1));
  const Inside inside(o.name, o.netns);
  const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) fail(o.name, fmt::format("/dev/net/tun: {}", std::strerror(errno)));
  try {
    ifreq r{};
    std::memcpy(r.ifr_name, o.name.data(), o.name.size());
    r.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL);
    if (ioctl(fd, TUNSETIFF, &r) != 0) {
      fail(o.name,
           errno == EBUSY || errno == EEXIST ? std::string("an interface of that name exists")
           : errno == EPERM ? std::string("no right to make it: run as root, or with CAP_NET_ADMIN")
                            : std::string(std::strerror(errno)));
    }
    const unsigned offloads = o.offloads ? TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN : 0;
    if (ioctl(fd, TUNSETOFFLOAD, offloads) != 0)
      fail(o.name, fmt::format("its offloads can't be set: {}", std::strerror(errno)));
    bring_up(o);
  } catch (...) {
    close(fd);
    throw;
  }
  return fd;
}

}  // namespace

Tap::Tap(const TapOptions& options) : fd_(open_tap(options)), name_(options.name) {}

Tap::~Tap() { close(fd_); }

Tap::Received Tap::receive() {
  VnetHeader h{};
  const iovec parts[2] = {{&h, sizeof h}, {buffer_, sizeof buffer_}};
  const ssize_t n = readv(fd_, parts, 2);
  if (n <= static_cast<ssize_t>(sizeof h)) return {};
  const MutableFrame frame(buffer_, static_cast<size_t>(n) - sizeof h);
  if (h.gso_type != VnetHeader::kGsoNone) return {frame, h.gso_size};
  if ((h.flags & VnetHeader::kNeedsChecksum) != 0)
    complete_checksum(frame, h.csum_start, h.csum_offset);
  return {frame, 0};
}

bool Tap::send(Frame frame) {
  VnetHeader h{};  // nothing is known of it: the host checks the checksum itself
  const iovec parts[2] = {{&h, sizeof h}, {const_cast<uint8_t*>(frame.data()), frame.size()}};
  return writev(fd_, parts, 2) == static_cast<ssize_t>(sizeof h + frame.size());
}

}  // namespace softnic
