// SPDX-License-Identifier: BSD-3-Clause
// Counters of bundling and unbundling. Written by one worker, copied out by it at housekeeping.
#pragma once
#include <cstdint>

namespace caravan {

struct Counters {
#define PX_COUNTER(name, unit, sentence) uint64_t name = 0;
#include "caravan/dp/counters.def"
#undef PX_COUNTER
};

}  // namespace caravan
