// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/checksum.h"

#include <catch2/catch.hpp>
#include <random>

#include "tests/support/builder.h"

using namespace test;

namespace {

// The reference adds big-endian words; pxio's sums are of words as they lie in memory.
uint16_t reference(const Bytes& b, size_t from, size_t len) {
  const auto v = static_cast<uint16_t>(~internet_checksum(word_sum(b.data() + from, len)));
  return pxio::be16(v).raw();
}
// Ones' complement has two zeros.
bool same(uint16_t a, uint16_t b) { return a % 0xffff == b % 0xffff; }

Bytes random_bytes(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  Bytes b(n);
  for (auto& x : b) x = static_cast<uint8_t>(rng());
  return b;
}

}  // namespace

TEST_CASE("Checksums: sums of every length and alignment", "[checksum]") {
  const Bytes b = random_bytes(9300, 1);
  for (size_t len = 0; len < 300; ++len)
    for (size_t off = 0; off < 9; ++off)
      REQUIRE(same(pxio::sum_bytes(b.data() + off, len), reference(b, off, len)));
  for (size_t len = 300; len <= 9216; len += 61)
    REQUIRE(same(pxio::sum_bytes(b.data() + len % 7, len), reference(b, len % 7, len)));
}

TEST_CASE("Checksums: words full of ones don't lose carries", "[checksum]") {
  const Bytes b(9216, 0xff);
  for (size_t len : {1u, 2u, 63u, 64u, 65u, 8192u, 9216u})
    REQUIRE(same(pxio::sum_bytes(b.data(), len), reference(b, 0, len)));
  CHECK(pxio::fold(0) == 0);
  CHECK(pxio::fold(0xffffffffffffffff) == 0xffff);
  CHECK(pxio::fold(0x1ffff) == 1);
  CHECK(pxio::sum_bytes(nullptr, 0) == 0);
}

TEST_CASE("Checksums: copying sums and copies", "[checksum]") {
  const Bytes b = random_bytes(9300, 2);
  for (size_t len = 0; len <= 9216; len += len < 200 ? 1 : 61) {
    Bytes to(len + 2, 0xa5);
    REQUIRE(same(pxio::copy_and_sum(to.data() + 1, b.data() + len % 5, len),
                 reference(b, len % 5, len)));
    REQUIRE(std::equal(to.begin() + 1, to.end() - 1, b.begin() + static_cast<long>(len % 5)));
    REQUIRE((to.front() == 0xa5 && to.back() == 0xa5));
  }
}

TEST_CASE("Checksums: a sum of pieces at odd offsets is the sum of the whole", "[checksum]") {
  const Bytes b = random_bytes(3000, 3);
  std::mt19937 rng(4);
  for (int round = 0; round < 300; ++round) {
    uint64_t sum = 0;
    for (size_t at = 0; at < b.size();) {
      const size_t n = std::min<size_t>(b.size() - at, 1 + rng() % 700);
      const uint16_t s = pxio::sum_bytes(b.data() + at, n);
      sum += at % 2 != 0 ? pxio::swap_odd(s) : s;
      at += n;
    }
    REQUIRE(same(pxio::fold(sum), reference(b, 0, b.size())));
  }
}

TEST_CASE("Checksums: an incremental update equals computing anew", "[checksum]") {
  std::mt19937 rng(5);
  for (int round = 0; round < 2000; ++round) {
    Tcp t = round % 2 != 0 ? tcp4() : tcp6();
    t.flags(SYN).seq(rng()).mss(static_cast<uint16_t>(rng()));
    const Bytes before = t.l4();
    const auto to = static_cast<uint16_t>(rng());
    t.opts[2] = static_cast<uint8_t>(to >> 8);
    t.opts[3] = static_cast<uint8_t>(to);
    const Bytes after = t.l4();
    pxio::be16 old_sum, new_sum, old_mss;
    std::memcpy(&old_sum, &before[16], 2);
    std::memcpy(&new_sum, &after[16], 2);
    std::memcpy(&old_mss, &before[22], 2);
    REQUIRE(same(pxio::update_checksum(old_sum, old_mss.raw(), pxio::be16(to).raw()).raw(),
                 new_sum.raw()));
    // One that was wrong stays wrong by as much.
    const auto wrong = pxio::be16(static_cast<uint16_t>(old_sum.host() + 1));
    REQUIRE(!same(pxio::update_checksum(wrong, old_mss.raw(), pxio::be16(to).raw()).raw(),
                  new_sum.raw()));
  }
}

TEST_CASE("Checksums: pseudo-headers and the IPv4 header", "[checksum]") {
  for (const Tcp& base : {tcp4(), tcp6()}) {
    for (size_t n : {0u, 1u, 1460u, 8960u}) {
      Tcp t = base;
      t.data(n);
      Frame f = t.build();
      const uint8_t* ip = f.bytes.data() + 14;
      const size_t l3 = t.lower.version == 4 ? 20 : 40;
      const auto l4_len = static_cast<uint32_t>(f.bytes.size() - 14 - l3);
      uint64_t sum = pxio::sum_bytes(ip + l3, l4_len);
      if (t.lower.version == 4) {
        const auto& h = *reinterpret_cast<const pxio::Ipv4Header*>(ip);
        sum += pxio::pseudo_sum(h, 6, l4_len);
        REQUIRE(pxio::ipv4_header_ok(h));
        pxio::Ipv4Header copy = h;
        copy.ttl--;
        REQUIRE(!pxio::ipv4_header_ok(copy));
        pxio::set_ipv4_checksum(copy);
        REQUIRE(pxio::ipv4_header_ok(copy));
        REQUIRE(copy.checksum.host() == internet_checksum([&] {
                  pxio::Ipv4Header z = copy;
                  z.checksum = pxio::be16(0);
                  return word_sum(reinterpret_cast<const uint8_t*>(&z), 20);
                }()));
      } else {
        sum += pxio::pseudo_sum(*reinterpret_cast<const pxio::Ipv6Header*>(ip), 6, l4_len);
      }
      REQUIRE(pxio::fold(sum) == 0xffff);
    }
  }
}
