// SPDX-License-Identifier: BSD-3-Clause
// Takes a fuzz target's input apart, and says what went wrong before it aborts.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/frame.h"

namespace test {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : p_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t u8() {
    if (left_ == 0) return 0;
    --left_;
    return *p_++;
  }
  uint16_t u16() {
    const unsigned high = u8();
    return static_cast<uint16_t>(high << 8 | u8());
  }
  uint32_t u32() {
    const uint32_t high = u16();
    return high << 16 | u16();
  }
  Bytes bytes(size_t n) {
    n = std::min(n, left_);
    Bytes b(p_, p_ + n);
    p_ += n;
    left_ -= n;
    return b;
  }
  Bytes rest() { return bytes(left_); }

 private:
  const uint8_t* p_;
  size_t left_;
};

inline void fuzz_check(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "broken promise: %s\n", what.c_str());
  std::abort();
}

}  // namespace test
