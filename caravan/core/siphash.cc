// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/core/siphash.h"

#include <bit>
#include <cstring>

namespace caravan {
namespace {

struct State {
  uint64_t a, b, c, d;
  void round() {
    a += b;
    c += d;
    b = std::rotl(b, 13) ^ a;
    d = std::rotl(d, 16) ^ c;
    a = std::rotl(a, 32);
    c += b;
    a += d;
    b = std::rotl(b, 17) ^ c;
    d = std::rotl(d, 21) ^ a;
    c = std::rotl(c, 32);
  }
  void take(uint64_t word) {
    d ^= word;
    round();
    round();
    a ^= word;
  }
};

}  // namespace

uint64_t siphash(const Secret& key, std::span<const uint8_t> bytes) noexcept {
  // The constants are the algorithm's, "somepseudorandomlygeneratedbytes".
  State s{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
          key[1] ^ 0x7465646279746573};
  const size_t whole = bytes.size() / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) {
    uint64_t word;
    std::memcpy(&word, &bytes[i], sizeof word);
    s.take(word);
  }
  uint64_t last = uint64_t{bytes.size()} << 56;
  for (size_t i = whole; i < bytes.size(); ++i) last |= uint64_t{bytes[i]} << 8 * (i - whole);
  s.take(last);
  s.c ^= 0xff;
  for (int i = 0; i < 4; ++i) s.round();
  return s.a ^ s.b ^ s.c ^ s.d;
}

}  // namespace caravan
