// SPDX-License-Identifier: BSD-3-Clause
// Buffer chains: pulled, trimmed, stripped, appended and copied, with none lost.
#include "pxio/dp/pkt.h"

#include <catch2/catch.hpp>

#include "tests/support/builder.h"
#include "tests/support/eal.h"

using namespace test;
using pxio::PktPtr;

namespace {

Bytes some_bytes(size_t n) {
  Bytes b(n);
  for (size_t i = 0; i < n; ++i) b[i] = stream_byte(1, static_cast<uint32_t>(i));
  return b;
}

Bytes part(const Bytes& b, size_t from, size_t to) {
  return {b.begin() + static_cast<long>(from), b.begin() + static_cast<long>(to)};
}

PktPtr chain(const Bytes& b, uint32_t step) {
  Frame f{b};
  for (uint32_t at = step; at < b.size(); at += step) f.cuts.push_back(at);
  return to_mbuf(f, pools().buffers());
}

}  // namespace

TEST_CASE("Chains: pull makes the front contiguous and keeps the bytes", "[pkt]") {
  NoLeak guard;
  const Bytes b = some_bytes(200);
  for (uint32_t step : {1u, 7u, 13u, 33u, 53u, 200u}) {
    for (uint16_t len : {0, 1, 14, 54, 122, 199, 200}) {
      PktPtr p = chain(b, step);
      REQUIRE(pxio::pull(*p, len));
      REQUIRE(p->data_len >= len);
      REQUIRE(to_bytes(*p) == b);
    }
    PktPtr p = chain(b, step);
    REQUIRE(!pxio::pull(*p, 201));
    REQUIRE(to_bytes(*p) == b);
  }
  // A buffer that others see too isn't written to.
  PktPtr p = chain(b, 50);
  rte_mbuf_refcnt_update(p.get(), 1);
  CHECK(!pxio::pull(*p, 100));
  rte_mbuf_refcnt_update(p.get(), -1);
}

TEST_CASE("Chains: trim frees what is empty", "[pkt]") {
  NoLeak guard;
  const Bytes b = some_bytes(300);
  for (uint32_t step : {1u, 100u, 150u, 300u}) {
    for (uint32_t len : {1u, 99u, 100u, 101u, 299u, 300u, 400u}) {
      PktPtr p = chain(b, step);
      pxio::trim_to(*p, len);
      REQUIRE(to_bytes(*p) == part(b, 0, std::min(len, 300u)));
    }
  }
}

TEST_CASE("Chains: stripped headers leave no empty buffer", "[pkt]") {
  NoLeak guard;
  const Bytes b = some_bytes(300);
  for (uint32_t first : {54u, 66u, 100u}) {
    Frame f{b};
    f.cuts = {first, 200};
    PktPtr p = to_mbuf(f, pools().buffers());
    p = PktPtr(pxio::strip_front(p.release(), 54));
    REQUIRE(to_bytes(*p) == part(b, 54, 300));
  }
}

TEST_CASE("Chains: appending keeps counts and bytes", "[pkt]") {
  NoLeak guard;
  const Bytes b = some_bytes(500);
  PktPtr head = chain(part(b, 0, 100), 40);
  rte_mbuf* last = rte_pktmbuf_lastseg(head.get());
  last = pxio::append(*head, *last, chain(part(b, 100, 350), 100));
  last = pxio::append(*head, *last, chain(part(b, 350, 500), 500));
  CHECK(last == rte_pktmbuf_lastseg(head.get()));
  CHECK(to_bytes(*head) == b);
  CHECK(head->nb_segs == 7);
}

TEST_CASE("Chains: a copy is exact", "[pkt]") {
  NoLeak guard;
  const Bytes b = some_bytes(9000);
  PktPtr p = chain(b, 1448);
  CHECK(to_bytes(*pxio::copy_packet(*p, pools().buffers().large)) == b);
  CHECK(to_bytes(*pxio::copy_packet(*p, pools().buffers().small)) == b);
}
