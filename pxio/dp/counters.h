// SPDX-License-Identifier: BSD-3-Clause
// Counters of merge and split. Written by one worker, copied out by it at housekeeping.
#pragma once
#include <cstdint>

namespace pxio {

struct Counters {
#define PX_COUNTER(name, unit, sentence) uint64_t name = 0;
#include "pxio/dp/counters.def"
#undef PX_COUNTER
};

}  // namespace pxio
