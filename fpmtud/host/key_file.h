// SPDX-License-Identifier: BSD-3-Clause
// The shared key: a file's bytes, without the line end that editors add.
#pragma once
#include <string>

#include "fpmtud/core/mac.h"

namespace fpmtud {

// Throws std::runtime_error with one line that says what to do.
Key read_key(const std::string& path);

}  // namespace fpmtud
