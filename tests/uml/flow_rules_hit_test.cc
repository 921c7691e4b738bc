// SPDX-License-Identifier: BSD-3-Clause
// Rules that a port takes really steer: net_tap, whose rules are the kernel's flower filters. Runs
// in user-mode Linux (run.py).
#include <linux/if_packet.h>
#include <net/if.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <map>

#include "pxio/ctl/flow_rules.h"
#include "pxio/dp/fd.h"
#include "tests/support/builder.h"
#include "tests/support/eal.h"

using namespace test;

namespace {

constexpr uint16_t kQueues = 4, kTo = 2, kProbes = 7474;
constexpr const char* kInterface = "pxuml0";

class Tap {
 public:
  Tap() {
    REQUIRE(rte_dev_probe(("net_tap0,iface=" + std::string(kInterface)).c_str()) == 0);
    REQUIRE(rte_eth_dev_get_port_by_name("net_tap0", &id_) == 0);
    const rte_eth_conf conf{};
    REQUIRE(rte_eth_dev_configure(id_, kQueues, kQueues, &conf) == 0);
    for (uint16_t q = 0; q < kQueues; ++q) {
      REQUIRE(rte_eth_rx_queue_setup(id_, q, 256, 0, nullptr, pools().buffers().small) == 0);
      REQUIRE(rte_eth_tx_queue_setup(id_, q, 256, 0, nullptr) == 0);
    }
    start();
  }
  ~Tap() {
    rte_eth_dev_info info{};
    rte_eth_dev_info_get(id_, &info);
    rte_eth_dev_stop(id_);
    rte_eth_dev_close(id_);
    rte_dev_remove(info.device);
  }
  void start() { REQUIRE(rte_eth_dev_start(id_) == 0); }
  void stop() { REQUIRE(rte_eth_dev_stop(id_) == 0); }
  uint16_t id() const { return id_; }

  // What the kernel sends on the interface, by the queue at which it arrives.
  std::map<uint16_t, int> arrive(const std::vector<Frame>& frames) {
    pxio::Fd s(socket(AF_PACKET, SOCK_RAW, 0));
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(if_nametoindex(kInterface));
    REQUIRE(to.sll_ifindex != 0);
    std::map<uint16_t, int> seen;
    for (const Frame& f : frames) {
      REQUIRE(sendto(s.get(), f.bytes.data(), f.bytes.size(), 0, reinterpret_cast<sockaddr*>(&to),
                     sizeof to) == static_cast<ssize_t>(f.bytes.size()));
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
      for (bool found = false; !found && std::chrono::steady_clock::now() < end;)
        for (uint16_t q = 0; q < kQueues; ++q) {
          rte_mbuf* m = nullptr;
          if (rte_eth_rx_burst(id_, q, &m, 1) == 0) continue;
          pxio::PktPtr pkt(m);
          if (to_bytes(*m) != f.bytes) continue;  // the kernel's own: neighbour discovery and such
          ++seen[q];
          found = true;
        }
    }
    return seen;
  }

 private:
  uint16_t id_ = 0;
};

std::vector<Frame> datagrams(uint16_t port) {
  std::vector<Frame> v;
  for (uint16_t i = 0; i < 16; ++i) {
    v.push_back(udp(tcp4().lower, static_cast<uint16_t>(40000 + i), port, 100));
    v.push_back(udp(tcp6().lower, static_cast<uint16_t>(40000 + i), port, 100));
  }
  return v;
}

Frame echo(const Lower& lower) {
  Frame f;
  f.bytes = ip_frame(lower, lower.version == 4 ? 1 : 58, Bytes(64, lower.version == 4 ? 8 : 128));
  return f;
}

bool used(const pxio::FlowRules& rules, const std::string& name) {
  for (const auto& s : rules.states())
    if (s.name == name) return s.used;
  FAIL("no rule " << name);
  return false;
}

}  // namespace

TEST_CASE("Flow rules: what a port takes is hit, again after a restart, and no longer once removed",
          "[uml]") {
  NoLeak guard;
  Tap tap;
  const std::vector<Frame> wanted = datagrams(kProbes), others = datagrams(443);
  // By the kernel's flow hash, over all queues.
  REQUIRE(tap.arrive(wanted).size() > 1);
  {
    pxio::FlowRules rules(tap.id(), kTo, pxio::FragmentMatch::kRange,
                          pxio::wanted_flow_rules(kProbes));
    for (int start = 0; start < 2; ++start) {
      INFO("start " << start);
      rules.create();
      for (const auto& s : rules.states()) UNSCOPED_INFO(s.name << ": " << s.used << ", " << s.how);
      CHECK(used(rules, "IPv4 UDP to port 7474"));
      CHECK(used(rules, "IPv6 UDP to port 7474"));
      CHECK(used(rules, "ICMP"));
      CHECK(used(rules, "ICMPv6"));
      CHECK_FALSE(
          used(rules, "IPv4 fragments"));  // flower as net_tap asks for it has no such match
      CHECK(tap.arrive(wanted) == std::map<uint16_t, int>{{kTo, static_cast<int>(wanted.size())}});
      CHECK(tap.arrive({echo(tcp4().lower), echo(tcp6().lower)}) ==
            std::map<uint16_t, int>{{kTo, 2}});
      CHECK(tap.arrive(others).size() > 1);
      tap.stop();
      tap.start();
    }
  }
  CHECK(tap.arrive(wanted).size() > 1);
}
