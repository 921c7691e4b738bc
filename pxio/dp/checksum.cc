// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/checksum.h"

#include <cstring>

namespace pxio {
namespace {

// Two 64-bit words, in a register of every x86-64. The halves of the words are added to lanes of 64
// bits, so that no carry is lost below 2^32 of them.
using Words = uint64_t __attribute__((vector_size(16)));
constexpr size_t kTurn = 4 * sizeof(Words);

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

// Copies as it sums where `d` isn't null: one body for both.
template <bool kCopy>
inline uint16_t sum_all(uint8_t* d, const uint8_t* p, size_t len) {
  Words lanes[4] = {};
  for (; len >= kTurn; p += kTurn, len -= kTurn) {
    for (int k = 0; k < 4; ++k) {
      Words w;
      std::memcpy(&w, p + k * sizeof w, sizeof w);
      if constexpr (kCopy) std::memcpy(d + k * sizeof w, &w, sizeof w);
      lanes[k] += (w & 0xffffffff) + (w >> 32);
    }
    if constexpr (kCopy) d += kTurn;
  }
  if constexpr (kCopy) {
    if (len != 0) std::memcpy(d, p, len);
  }
  uint64_t sum = sum_tail(p, len);
  for (const Words& l : lanes) sum += uint64_t{fold(l[0])} + fold(l[1]);
  return fold(sum);
}

}  // namespace

uint16_t sum_bytes(const void* data, size_t len) noexcept {
  return sum_all<false>(nullptr, static_cast<const uint8_t*>(data), len);
}

uint16_t copy_and_sum(void* dst, const void* src, size_t len) noexcept {
  return sum_all<true>(static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), len);
}

}  // namespace pxio
