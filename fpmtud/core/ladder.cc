// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/core/ladder.h"

#include <algorithm>
#include <array>

namespace fpmtud {
namespace {

constexpr std::array kLadder = std::to_array<Rung>({
    {576, "RFC 1122, section 3.3.2"},
    {1006, "RFC 1191, table 7-1 (SLIP, ARPANET)"},
    {1280, "RFC 8200, section 5: IPv6's least"},
    {1300, nullptr},
    {1320, nullptr},
    {1340, nullptr},
    {1358, "3GPP TS 23.060, annex C: mobile hosts"},
    {1372, nullptr},
    {1380, nullptr},
    {1390, nullptr},
    {1400, "VPN gateways' common setting"},
    {1410, nullptr},
    {1420, "WireGuard: 1500 - 80 (wg-quick)"},
    {1428, nullptr},
    {1430, "VXLAN over IPv6 (RFC 7348): 1500 - 70"},
    {1436, nullptr},
    {1440, "WireGuard over IPv4: 1500 - 60"},
    {1442, "Geneve with an option (RFC 8926), as OVN sets it: 1500 - 58"},
    {1446, nullptr},
    {1450, "VXLAN (RFC 7348): 1500 - 50"},
    {1452, "IPv6 tunnel with encapsulation limit (RFC 2473): 1500 - 48"},
    {1454, "PPPoE of NTT's FLET'S access networks"},
    {1456, nullptr},
    {1460, "DS-Lite (RFC 6333): 1500 - 40; Google Cloud's default"},
    {1464, "GRE with checksum, key and sequence (RFC 2784, 2890): 1500 - 36"},
    {1468, "GRE behind PPPoE (RFC 2784, 2516): 1492 - 24"},
    {1472, "translation with fragment header (RFC 7915): 1500 - 28"},
    {1476, "GRE over IPv4 (RFC 2784): 1500 - 24"},
    {1480, "IPv6 or IPv4 in IPv4 (RFC 4213, 2003): 1500 - 20"},
    {1484, nullptr},
    {1488, "three MPLS labels (RFC 3032): 1500 - 12"},
    {1492, "PPPoE (RFC 2516, section 7)"},
    {1496, "one MPLS label (RFC 3032) or VLAN tag: 1500 - 4"},
    {1500, "Ethernet (RFC 894)"},
    {1600, "switches' baby giants"},
    {2002, "RFC 1191, table 7-1 (802.5)"},
    {2044, "InfiniBand (RFC 4391): 2048 - 4"},
    {2304, "802.11: MSDU"},
    {2800, nullptr},
    {3300, nullptr},
    {3800, nullptr},
    {4092, "InfiniBand (RFC 4391): 4096 - 4"},
    {4352, "FDDI (RFC 1390)"},
    {4470, "POS and HSSI routers' default"},
    {4970, nullptr},
    {5470, nullptr},
    {5970, nullptr},
    {6470, nullptr},
    {6970, nullptr},
    {7475, nullptr},
    {7935, "802.11n: A-MSDU"},
    {8166, "RFC 1191, table 7-1 (802.4)"},
    {8500, "AWS transit gateways"},
    {8896, "Google Cloud's largest"},
    {8942, "Geneve over 9000"},
    {8950, "VXLAN over 9000"},
    {8976, "GRE over 9000"},
    {9000, "jumbo frames"},
    {9001, "AWS EC2"},
    {9180, "ATM, SMDS (RFC 2225, 1209)"},
    {9216, "switches' jumbo frames"},
    {16110, "NICs with 16 KB frames (Linux e1000)"},
    {17914, "RFC 1191, table 7-1 (16 Mb/s token ring)"},
    {32000, "RFC 1191, table 7-1"},
    {65520, "IP over InfiniBand, connected mode (RFC 4755)"},
    {65535, "RFC 1191, table 7-1: the largest IPv4 datagram"},
});

constexpr size_t kFewSizes = 16;

class Planner {
 public:
  Planner(const RoundSpec& spec, Family family) : spec_(spec), family_(family) {
    spec_.top = std::max(spec_.top, floor_of(family));
    spec_.low = std::clamp(spec_.low, floor_of(family), spec_.top);
    spec_.high = std::min(spec_.high, spec_.top);
  }

  Round plan() {
    switch (spec_.kind) {
      case RoundKind::kFull:
        full();
        break;
      case RoundKind::kConfirm:
        confirm();
        break;
      case RoundKind::kEverySize:
        every_size();
        break;
      case RoundKind::kKnock:
        break;
    }
    round_.push_back({floor_of(family_), false});
    return std::move(round_);
  }

 private:
  void add(uint16_t size) {
    if (round_.size() < kMaxProbes - 2) round_.push_back({size, false});
  }
  void add_fragmentable() {
    if (family_ == Family::kIpv4) round_.push_back({spec_.top, true});
  }
  void add_rungs(uint32_t above, uint32_t up_to) {
    for (const Rung& r : ladder())
      if (r.size > above && r.size <= up_to) add(r.size);
  }

  // Twice, so that what is missing is hardly ever missing for loss alone.
  void full() {
    add_fragmentable();
    for (int copy = 0; copy < 2; ++copy) {
      add_rungs(spec_.low, spec_.top - 1u);
      add(spec_.top);
    }
    add_fragmentable();
  }

  void confirm() {
    for (int copy = 0; copy < 2; ++copy) {
      add(spec_.low);
      if (spec_.high <= spec_.low) continue;
      add_rungs(spec_.low, spec_.high - 1u);
      add(spec_.high);
    }
    add_fragmentable();
  }

  void every_size() {
    const size_t n = spec_.high >= spec_.low ? spec_.high - spec_.low + 1u : 0;
    for (size_t copy = 0; copy < (n <= kFewSizes ? 2 : 1); ++copy)
      for (size_t i = 0; i < n; ++i) add(static_cast<uint16_t>(spec_.low + i));
  }

  RoundSpec spec_;
  Family family_;
  Round round_;
};

}  // namespace

std::span<const Rung> ladder() { return kLadder; }

Round plan_round(const RoundSpec& spec, Family family) { return Planner(spec, family).plan(); }

}  // namespace fpmtud
