// SPDX-License-Identifier: BSD-3-Clause
// Secrets. Control thread.
#pragma once
#include <sys/random.h>

#include <stdexcept>

namespace pxgw {

// A value of random bytes. Throws std::runtime_error.
template <typename T>
T random_value() {
  T v;
  if (getrandom(&v, sizeof v, 0) != sizeof v) throw std::runtime_error("the system gives no random numbers");
  return v;
}

}  // namespace pxgw
