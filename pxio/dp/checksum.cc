// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/checksum.h"

#include <cstring>

namespace pxio {
namespace {

// 64 bytes a turn in four independent 64-bit sums of 32-bit words: wide enough for the compiler to use
// vector registers, and no carry is lost below 2^32 words.
struct Lanes {
  uint64_t s[8] = {};
  void add(const uint32_t (&w)[16]) {
    for (int k = 0; k < 8; ++k) s[k] += uint64_t{w[k]} + w[k + 8];
  }
  uint64_t total() const {
    uint64_t t = 0;
    for (uint64_t x : s) t += fold(x);
    return t;
  }
};

uint64_t sum_tail(const uint8_t* p, size_t len) {
  uint64_t sum = 0;
  for (; len >= 4; p += 4, len -= 4) {
    uint32_t w;
    std::memcpy(&w, p, 4);
    sum += w;
  }
  if (len >= 2) {
    uint16_t w;
    std::memcpy(&w, p, 2);
    sum += w;
    p += 2;
    len -= 2;
  }
  if (len != 0) sum += *p;  // the low byte of a little-endian word: the padding zero is the high one
  return sum;
}

}  // namespace

uint16_t sum_bytes(const void* data, size_t len) noexcept {
  const auto* p = static_cast<const uint8_t*>(data);
  Lanes lanes;
  for (; len >= 64; p += 64, len -= 64) {
    uint32_t w[16];
    std::memcpy(w, p, 64);
    lanes.add(w);
  }
  return fold(lanes.total() + sum_tail(p, len));
}

uint16_t copy_and_sum(void* dst, const void* src, size_t len) noexcept {
  auto* d = static_cast<uint8_t*>(dst);
  const auto* p = static_cast<const uint8_t*>(src);
  Lanes lanes;
  for (; len >= 64; p += 64, d += 64, len -= 64) {
    uint32_t w[16];
    std::memcpy(w, p, 64);
    std::memcpy(d, w, 64);
    lanes.add(w);
  }
  if (len != 0) std::memcpy(d, p, len);
  return fold(lanes.total() + sum_tail(p, len));
}

}  // namespace pxio
