// SPDX-License-Identifier: BSD-3-Clause
// Fragments of path MTU probes, as they pass: which have been seen and how large the largest was. Nothing is
// put together and no buffer is kept. A fixed table; an entry lives for a second. Worker thread.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>

#include "fpmtud/core/wire.h"
#include "pxio/dp/units.h"

namespace pxgw {

struct ProbeFragment {
  uint32_t src = 0, dst = 0;  // as they lie in the header
  uint16_t id = 0;
  uint16_t offset = 0;        // bytes
  uint16_t length = 0;        // bytes behind the IP header
  uint16_t ip_len = 0;        // with it
  bool more = false;
};

class ProbeFragments {
 public:
  enum class Verdict : uint8_t {
    kNotOurs,   // of no probe that is known here
    kTaken,     // of a probe that isn't complete yet, or never will be
    kComplete,  // the probe's last: what probe() returns holds until the next call
  };
  struct Probe {
    uint16_t from_port = 0;
    uint16_t payload = 0;           // bytes of its UDP payload
    uint16_t largest_fragment = 0;  // bytes of IP packet
    std::array<uint8_t, fpmtud::kProbeBytes> header{};
  };

  ProbeFragments();
  // The first fragment of a probe: `header` is the front of its UDP payload, `payload` the length of all.
  Verdict first(const ProbeFragment& f, uint16_t from_port, uint16_t payload,
                std::span<const uint8_t, fpmtud::kProbeBytes> header, pxio::Nanos now) noexcept;
  // A later one, which bears no ports.
  Verdict later(const ProbeFragment& f, pxio::Nanos now) noexcept;
  const Probe& probe() const noexcept { return done_; }

 private:
  // Of 8 bytes; enough for datagrams of 9500 B, the largest MTU of a port.
  static constexpr size_t kUnits = 9504 / 8;
  static constexpr uint32_t kSets = 64, kWays = 4;
  static constexpr pxio::Nanos kLifetime = std::chrono::seconds(1);
  struct Entry {
    uint32_t src = 0, dst = 0;
    uint16_t id = 0;
    bool in_use = false;
    bool spoilt = false;       // fragments overlapped or contradicted each other: never answered
    uint16_t units_seen = 0;
    pxio::Nanos since{0};
    Probe probe;
    std::bitset<kUnits> seen;
  };
  Entry* set_of(const ProbeFragment& f) const noexcept;
  Entry* find(const ProbeFragment& f, pxio::Nanos now) const noexcept;
  Verdict add(Entry& e, const ProbeFragment& f) noexcept;
  uint64_t secret_;
  Probe done_;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace pxgw
