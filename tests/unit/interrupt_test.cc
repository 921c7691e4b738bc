// SPDX-License-Identifier: BSD-3-Clause
// DPDK ports that can be slept on. Needs root: makes a TAP device, which goes with the test.
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "pxio/ctl/ethdev_setup.h"
#include "pxio/dp/fd.h"
#include "tests/support/checks.h"

using namespace test;

namespace {

bool readable(int fd, int ms) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, ms) == 1;
}

// Interfaces that this test makes are seen by no one else.
struct OwnNetwork {
  OwnNetwork() : before(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    REQUIRE(unshare(CLONE_NEWNET) == 0);
    // Or the host itself would send.
    std::ofstream("/proc/sys/net/ipv6/conf/default/disable_ipv6") << 1;
  }
  ~OwnNetwork() { setns(before.get(), CLONE_NEWNET); }
  pxio::Fd before;
};

// Sends a frame out of the interface: into the port.
void send_through(const char* name, const Bytes& frame) {
  const pxio::Fd s(socket(AF_PACKET, SOCK_RAW, 0));
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = static_cast<int>(if_nametoindex(name));
  REQUIRE(sendto(s.get(), frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof to) ==
          static_cast<ssize_t>(frame.size()));
}

}  // namespace

TEST_CASE("EthdevPort: a port with receive interrupts wakes who sleeps on it", "[ethdev]") {
  OwnNetwork network;
  NoLeak guard;
  auto port = pxio::open_ethdev({.device = "net_tap0,iface=pxtap", .mtu = 1500, .buffers = pools().buffers(),
                                 .descriptors = 64, .interrupts = true});
  REQUIRE(port->wait_fd(0) >= 0);
  const auto drain = [&] {
    unsigned got = 0;
    rte_mbuf* m;
    while (port->rx_burst(0, &m, 1) == 1) pxio::PktPtr(m).reset(), ++got;
    return got;
  };
  const Frame frame = tcp4().data(100);
  for (int round = 0; round < 3; ++round) {
    drain();
    port->arm(0);
    CHECK_FALSE(readable(port->wait_fd(0), 20));
    send_through("pxtap", frame.bytes);
    CHECK(readable(port->wait_fd(0), 2000));
    port->disarm(0);
    CHECK(drain() == 1);
  }
}

TEST_CASE("EthdevPort: one without can only be looked at", "[ethdev]") {
  NoLeak guard;
  auto port = pxio::open_ethdev({.device = "net_ring0", .mtu = 1500, .buffers = pools().buffers(),
                                 .descriptors = 64, .interrupts = true});
  CHECK(port->wait_fd(0) == -1);
}
