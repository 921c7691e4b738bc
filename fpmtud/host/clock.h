// SPDX-License-Identifier: BSD-3-Clause
// The time that the core is given.
#pragma once
#include "fpmtud/core/base.h"

namespace fpmtud {

inline Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace fpmtud
