// SPDX-License-Identifier: BSD-3-Clause
// A gateway with the stage for caravans, and hosts inside that take them.
#pragma once
#include <algorithm>
#include <catch2/catch.hpp>

#include "pxgw/dp/caravan_stage.h"
#include "tests/support/bed.h"

namespace test {

inline constexpr caravan::Secret kCaravanSecret{1, 2};

struct CaravanHostsBed {
  // `inside_segs`: buffers that the inside port takes in one packet.
  explicit CaravanHostsBed(const pxgw::Policy& p, uint16_t inside_segs = 64)
      : hosts(64, kCaravanSecret, 77), bed(p) {
    bed.gateway().add_stage([this, inside_segs](const auto& c) {
      return std::make_unique<pxgw::CaravanStage>(c, hosts, pxgw::CaravanStage::Ports{inside_segs, 64});
    });
  }
  // The host that `l` leads to takes caravans of `size`.
  void ask(const Lower& l, uint16_t size = 9000) {
    caravan::Host h{{l.version == 4 ? caravan::Family::kIpv4 : caravan::Family::kIpv6, {}}, size, caravan::Time::max()};
    std::copy_n(l.dst.begin(), l.version == 4 ? 4 : 16, h.address.bytes.begin());
    REQUIRE(hosts.table.set(h, bed.now()));
  }
  pxgw::CaravanHosts hosts;
  Bed bed;
};

}  // namespace test
