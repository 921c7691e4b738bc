// SPDX-License-Identifier: BSD-3-Clause
// All counters of one worker's gateway. Written by the worker, copied out by it at housekeeping.
#pragma once
#include <array>
#include <cstdint>

#include "caravan/dp/counters.h"
#include "pxio/dp/counters.h"
#include "pxio/dp/tx_buffer.h"

namespace pxgw {

using pxio::kSizeBounds;
// Bin k of the hold histogram counts packets held for less than 2^k us; the last bin is open.
inline constexpr size_t kHoldBins = 12;

// How things stand at the time of the copy.
struct State {
  uint64_t flows = 0, held_pkts = 0, handshakes = 0;
  uint64_t caravan_held = 0;  // datagrams
  uint64_t fragments_held = 0;
};

struct Counters : State {
#define PX_COUNTER(name, unit, sentence) uint64_t name = 0;
#include "pxgw/dp/counters.def"
#undef PX_COUNTER
  pxio::Counters engine;
  caravan::Counters caravan;
  // Packets by size, as they came and as they left; index: pxio::Direction.
  std::array<pxio::SizeHistogram, 2> size_in{}, size_out{};
  std::array<uint64_t, kHoldBins> hold{};
};
static_assert(sizeof(Counters) % sizeof(uint64_t) == 0);

}  // namespace pxgw
