// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/tcp_options.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "tests/support/frame.h"

using test::Bytes;

namespace {

// The header lies at the end of its own allocation, so that a sanitizer sees any read past it.
struct Header {
  explicit Header(const Bytes& options) : len(20 + (static_cast<unsigned>(options.size()) + 3) / 4 * 4) {
    bytes = std::make_unique<uint8_t[]>(len);
    std::fill(bytes.get(), bytes.get() + len, uint8_t{0});
    std::copy(options.begin(), options.end(), bytes.get() + 20);
  }
  pxio::TcpOptions parse() const { return pxio::parse_tcp_options(bytes.get(), len); }
  std::vector<unsigned> all_mss() const {
    std::vector<unsigned> r;
    pxio::for_each_mss(bytes.get(), len, [&](unsigned off) { r.push_back(off); });
    return r;
  }
  unsigned len;
  std::unique_ptr<uint8_t[]> bytes;
};

}  // namespace

TEST_CASE("Options: what SYNs and data segments usually carry", "[options]") {
  const Header syn({2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7});
  const auto o = syn.parse();
  CHECK(o.mss_off == 22);
  CHECK(o.mss_count == 1);
  CHECK(o.ts_off == 28);
  CHECK(!o.malformed);
  const auto d = Header({1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2}).parse();
  CHECK(d.ts_off == 24);
  CHECK(!d.malformed);
  // Timestamps elsewhere than everyone puts them.
  CHECK(Header({8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1}).parse().ts_off == 22);
  CHECK(Header({1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1}).parse().ts_off == 23);
  CHECK(Header({}).parse().ts_off == 0);
}

TEST_CASE("Options: signatures and multipath are recognised", "[options]") {
  Bytes md5(18);
  md5[0] = 19, md5[1] = 18;
  CHECK(Header(md5).parse().signed_);
  CHECK(Header({29, 4, 1, 2}).parse().signed_);
  CHECK(Header({30, 4, 0x20, 0}).parse().mptcp);
  CHECK(!Header({34, 6, 1, 2, 3, 4}).parse().signed_);
}

TEST_CASE("Options: malformed ones end the walk and are never used", "[options]") {
  const std::vector<Bytes> bad = {
      {5, 0, 0, 0},              // length 0 would never advance
      {5, 1, 0, 0},              // length 1 neither
      {1, 1, 1, 8},              // a kind as the last byte
      {1, 1, 2, 4},              // MSS cut by the header's end
      {2, 3, 5, 0},              // MSS of the wrong length
      {2, 5, 5, 180, 0, 0},      //
      {5, 255, 0, 0},            // longer than any header
      {8, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // timestamps of the wrong length
  };
  for (const Bytes& b : bad) {
    const Header h(b);
    INFO(test::to_hex(b));
    CHECK(h.parse().malformed);
    CHECK(h.all_mss().empty());
    CHECK(h.parse().ts_off == 0);
  }
  // Behind the end of the list nothing counts.
  const Header behind({0, 2, 4, 5, 180, 0, 0, 0});
  CHECK(!behind.parse().malformed);
  CHECK(behind.parse().mss_off == 0);
  CHECK(behind.all_mss().empty());
  // Two timestamps: no telling which one counts.
  CHECK(Header({8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2}).parse().malformed);
}

TEST_CASE("Options: each of several MSS options is found", "[options]") {
  const Header h({2, 4, 5, 180, 1, 1, 2, 4, 2, 24});
  CHECK(h.parse().mss_count == 2);
  CHECK(h.all_mss() == std::vector<unsigned>{22, 28});
}

TEST_CASE("Options: every header length and every byte pattern of two bytes ends", "[options]") {
  for (unsigned words = 0; words <= 10; ++words) {
    for (unsigned v = 0; v < 65536; v += words == 10 ? 1 : 251) {
      Bytes b(words * 4);
      for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(i % 2 == 0 ? v >> 8 : v);
      const Header h(b);
      const auto o = h.parse();
      REQUIRE(o.ts_off < 60);
      REQUIRE((o.ts_off == 0 || o.ts_off + 8u <= h.len));
      REQUIRE((o.mss_off == 0 || o.mss_off + 2u <= h.len));
      for (unsigned off : h.all_mss()) REQUIRE(off + 2 <= h.len);
    }
  }
}
