// SPDX-License-Identifier: BSD-3-Clause
// The time that workers are given, and that is told them from outside. Any thread.
#pragma once
#include "pxio/dp/units.h"

namespace pxgw {

inline pxio::Nanos clock_now() noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace pxgw
