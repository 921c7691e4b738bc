// SPDX-License-Identifier: BSD-3-Clause
// Nonces that nobody can guess. Any thread.
#pragma once
#include <sys/random.h>

#include <cstdlib>

#include "fpmtud/core/base.h"

namespace fpmtud {

inline Nonce random_nonce() {
  Nonce n;
  if (getrandom(n.data(), n.size(), 0) != static_cast<ssize_t>(n.size())) std::abort();
  return n;
}

}  // namespace fpmtud
