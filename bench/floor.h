// SPDX-License-Identifier: BSD-3-Clause
// The least that the work must touch, as loops written for it alone: what no engine of this kind can beat
// on the same machine.
#pragma once
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <cstdint>
#include <vector>

namespace bench {

// A merge by chaining: from one ring to another 32 packets at a time; of each both lines of the buffer's
// metadata are written, both header lines read and one written, its five-tuple hashed and one of 64 Ki
// flow lines written.
class MergeFloor {
 public:
  MergeFloor();
  // Takes up to 32 packets over; returns how many there were.
  uint32_t poll(rte_ring* from, rte_ring* to) noexcept;

 private:
  struct alignas(64) Line {
    uint64_t words[8];
  };
  std::vector<Line> flows_;
};

// Reads every byte once. Returns something of it, so that it can't be left out.
uint64_t read_once(const rte_mbuf& m) noexcept;

}  // namespace bench
