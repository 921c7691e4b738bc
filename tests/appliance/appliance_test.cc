// SPDX-License-Identifier: BSD-3-Clause
// A whole gateway in this process, which starts DPDK itself.
#define CATCH_CONFIG_MAIN
#include "pxgw/ctl/appliance.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <thread>

#include "tests/support/port_event.h"

namespace {

// Ports that always have packets, and take all.
pxgw::Config config() {
  const std::string path = "/tmp/px_appliance_" + std::to_string(getpid()) + ".yaml";
  std::ofstream(path) << "pairs:\n"
                         "  - outside: {device: net_null0, mtu: 1500}\n"
                         "    inside: {device: net_null1, mtu: 9000}\n"
                         "eal: {hugepages: no}\n";
  const pxgw::Config c = pxgw::load_config(path);
  std::remove(path.c_str());
  return c;
}

// Whether both ports' packets still come.
bool traffic(const pxgw::Appliance& a) {
  const pxgw::Counters before = a.counters();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end) {
    const pxgw::Counters now = a.counters();
    if (now.in_pkts > before.in_pkts + 1000 && now.out_pkts > before.out_pkts + 1000) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace

TEST_CASE("Starvation: a port whose NIC was reset is started anew, one that is gone ends the gateway",
          "[appliance]") {
  pxgw::Appliance a(config());
  REQUIRE(traffic(a));
  for (const char* device : {"net_null0", "net_null1", "net_null0"}) {
    INFO(device);
    REQUIRE(test::raise_event(device, RTE_ETH_EVENT_INTR_RESET));
    REQUIRE_NOTHROW(a.watch());
    CHECK(traffic(a));
  }
  REQUIRE(test::raise_event("net_null1", RTE_ETH_EVENT_INTR_RMV));
  CHECK_THROWS_WITH(a.watch(), Catch::Contains("port net_null1: its device is gone"));
  CHECK(traffic(a));  // until it ends
  CHECK(a.stop() == 0);
  CHECK(pxgw::unaccounted(a.counters()) == 0);
}
