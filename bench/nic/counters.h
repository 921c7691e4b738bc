// SPDX-License-Identifier: BSD-3-Clause
// What the emulated NIC counts; counters.def is the table. Written and read by its one thread.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace softnic {

struct Counters {
#define NIC_COUNTER(name, text) uint64_t name = 0;
#include "bench/nic/counters.def"
#undef NIC_COUNTER
};

// In the order of the table.
inline std::vector<std::pair<const char*, uint64_t>> named(const Counters& c) {
  return {
#define NIC_COUNTER(name, text) {#name, c.name},
#include "bench/nic/counters.def"
#undef NIC_COUNTER
  };
}

// Frames that came and neither went nor were dropped under a counter, both ways, while nothing is
// held.
inline int64_t unaccounted(const Counters& c) {
  const uint64_t from_wire = c.wire_in - c.wire_in_gso + c.wire_in_cut;
  const uint64_t to_host =
      c.host_out + c.host_out_down - c.lro_out + c.lro_in + c.host_no_buffer + c.rx_bad;
  const uint64_t from_host = c.host_in - c.tso_in + c.tso_out + c.tso_bad;
  const uint64_t to_wire = c.wire_out + c.wire_too_big + c.wire_refused + c.tso_bad;
  return static_cast<int64_t>(from_wire - to_host + from_host - to_wire);
}

}  // namespace softnic
