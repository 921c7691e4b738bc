// SPDX-License-Identifier: BSD-3-Clause
// docs/caravan-format.md is the standard; its test vectors were made by another program.
#include <catch2/catch.hpp>

#include "pxio/dp/checksum.h"
#include "tests/caravan/unit/capture.h"
#include "tests/caravan/unit/same.h"

using namespace caravan;
using namespace test;

namespace {

const std::vector<std::string> kRefused = {
    "short",  "magic",  "version", "type",   "reserved", "reserved", "count",  "count",  "count",
    "length", "length", "record",  "record", "record",   "rest",     "nested", "nested", "ecn"};

std::vector<UdpPacket> parsed(const std::vector<Packet>& packets) {
  std::vector<UdpPacket> all(packets.size());
  for (size_t i = 0; i < packets.size(); ++i) REQUIRE(parse_udp(packets[i], all[i]));
  return all;
}

}  // namespace

TEST_CASE("caravan: the test vectors, both ways, byte for byte") {
  std::vector<Packet> waiting;
  unsigned caravans = 0;
  for (const Packet& p : read_vectors("vectors.pcap")) {
    if (!is_caravan_packet(p)) {
      waiting.push_back(p);
      continue;
    }
    INFO("caravan " << caravans);
    const auto packets = parsed(waiting);
    for (const UdpPacket& d : packets) {
      CHECK(may_share(packets[0], d));
      CHECK(checksum_ok(d));
    }
    Packet made(p.size() + 10);
    made.resize(bundle_packet(packets, kDefaultPort, made));
    CHECK(same_bytes(made, p));
    Refusal refusal{};
    const auto apart = take_apart(p, refusal);
    CHECK(refusal == Refusal::kNone);
    REQUIRE(apart.size() == waiting.size());
    for (size_t i = 0; i < apart.size(); ++i) CHECK(same_bytes(apart[i], waiting[i]));
    // The caravan is a right UDP datagram itself.
    UdpPacket outer;
    REQUIRE(parse_udp(p, outer));
    CHECK(checksum_ok(outer));
    waiting.clear();
    ++caravans;
  }
  CHECK(waiting.empty());
  CHECK(caravans == 15);
}

TEST_CASE("caravan: what is malformed is refused whole, with a reason") {
  const auto packets = read_vectors("refused.pcap");
  REQUIRE(packets.size() == 2 * kRefused.size() + 1);
  for (size_t i = 0; i < packets.size(); ++i) {
    INFO("packet " << i);
    Refusal refusal{};
    CHECK(take_apart(packets[i], refusal).empty());
    CHECK(name_of(refusal) ==
          (i < 2 * kRefused.size() ? kRefused[i % kRefused.size()] : std::string("mark")));
  }
}

TEST_CASE(
    "caravan: cut anywhere, or with any byte changed, it is refused or gives whole datagrams") {
  for (const Packet& p : read_vectors("vectors.pcap")) {
    if (!is_caravan_packet(p)) continue;
    const Bytes payload = udp_payload(p);
    Records r;
    for (size_t n = 0; n < payload.size(); ++n)
      REQUIRE(unbundle(payload.first(n), family_of(p), kDefaultPort, r) != Refusal::kNone);
    Packet changed(payload.begin(), payload.end());
    for (size_t i = 0; i < changed.size(); i += 3) {
      for (const uint8_t bit : {1, 16, 128}) {
        changed[i] ^= bit;
        if (unbundle(changed, family_of(p), kDefaultPort, r) == Refusal::kNone) {
          size_t total = sizeof(Header);
          for (unsigned k = 0; k < r.count; ++k) {
            REQUIRE(r.at[k].offset == total + mark_bytes(family_of(p)));
            total = r.at[k].offset + r.at[k].length;
          }
          REQUIRE(total == changed.size());
        }
        changed[i] ^= bit;
      }
    }
  }
}

TEST_CASE("caravan: a congestion mark on the way reaches the datagrams as RFC 6040 says") {
  std::vector<Packet> expected;
  unsigned seen = 0;
  for (const Packet& p : read_vectors("marked.pcap")) {
    if (is_caravan_packet(p)) {
      CHECK(expected.empty());
      Refusal refusal{};
      expected = take_apart(p, refusal);
      CHECK(expected.size() == 2);
      ++seen;
    } else {
      REQUIRE(!expected.empty());
      CHECK(same_bytes(expected.front(), p));
      expected.erase(expected.begin());
    }
  }
  CHECK(expected.empty());
  CHECK(seen == 30);
}

TEST_CASE("caravan: only whole, plain UDP datagrams may be bundled") {
  const Packet good = read_vectors("vectors.pcap").front();
  UdpPacket p;
  REQUIRE(parse_udp(good, p));
  const auto with = [&](size_t at, uint8_t value, bool mend = true) {
    Packet b = good;
    b[at] = value;
    if (mend) pxio::set_ipv4_checksum(*reinterpret_cast<pxio::Ipv4Header*>(b.data()));
    return parse_udp(b, p);
  };
  CHECK(with(8, 3));
  CHECK_FALSE(with(8, 3, false));  // the header's checksum doesn't hold
  CHECK_FALSE(with(0, 0x46));      // options
  CHECK_FALSE(with(0, 0x65));
  CHECK_FALSE(with(6, 0x20));                                 // a first fragment
  CHECK_FALSE(with(6, 0xc0));                                 // the reserved bit
  CHECK_FALSE(with(7, 1));                                    // a later fragment
  CHECK_FALSE(with(9, 6));                                    // not UDP
  CHECK_FALSE(with(25, static_cast<uint8_t>(good[25] - 1)));  // UDP options behind the datagram
  CHECK_FALSE(with(2, 0xff));                                 // cut short
  CHECK_FALSE(parse_udp(Bytes(good).first(27), p));
  Packet padded = good;
  padded.resize(padded.size() + 6, 0xee);
  REQUIRE(parse_udp(padded, p));
  CHECK(p.datagram.udp.size() == good.size() - 20);
}

TEST_CASE("caravan: datagrams share one only where what the outer header says is true for all") {
  for (const size_t first : {size_t{0}, size_t{1}}) {
    const auto all = read_vectors("vectors.pcap");
    const Packet a = *std::find_if(all.begin(), all.end(), [&](const Packet& p) {
      return (family_of(p) == Family::kIpv6) == (first == 1) && !is_caravan_packet(p);
    });
    UdpPacket x, y;
    REQUIRE(parse_udp(a, x));
    const auto shared = [&](size_t at, uint8_t xor_with) {
      Packet b = a;
      b[at] ^= xor_with;
      if (first == 0) pxio::set_ipv4_checksum(*reinterpret_cast<pxio::Ipv4Header*>(b.data()));
      REQUIRE(parse_udp(b, y));
      return may_share(x, y);
    };
    if (first == 0) {
      CHECK_FALSE(shared(1, 0x10));  // TOS
      CHECK_FALSE(shared(1, 1));     // ECN
      CHECK_FALSE(shared(6, 0x40));  // DF
      CHECK_FALSE(shared(8, 1));     // TTL
      CHECK_FALSE(shared(15, 1));
      CHECK_FALSE(shared(19, 1));
      CHECK(shared(5, 1));   // identification
      CHECK(shared(23, 1));  // port
    } else {
      CHECK_FALSE(shared(0, 1));
      CHECK_FALSE(shared(1, 0x10));
      CHECK_FALSE(shared(7, 1));
      CHECK_FALSE(shared(23, 1));
      CHECK_FALSE(shared(39, 1));
      CHECK(shared(3, 1));  // flow label
      CHECK(shared(43, 1));
    }
  }
}

TEST_CASE("caravan: bundle refuses what doesn't fit, and never nests") {
  Packet small{0x01, 0xbb, 0xc3, 0x50, 0, 9, 0, 0, 'x'};
  std::vector<Datagram> many(65, Datagram{0, small});
  Packet out(2000);
  CHECK(bundle(std::span(many).first(64), Family::kIpv4, 0, kDefaultPort, out) == 8 + 64 * 11);
  CHECK(bundle(many, Family::kIpv4, 0, kDefaultPort, out) == 0);
  CHECK(bundle({}, Family::kIpv4, 0, kDefaultPort, out) == 0);
  CHECK(bundle(std::span(many).first(2), Family::kIpv4, 0, kDefaultPort,
               std::span(out).first(29)) == 0);
  CHECK(bundle(std::span(many).first(2), Family::kIpv4, 0, kDefaultPort,
               std::span(out).first(30)) == 30);
  CHECK(bundle(std::span(many).first(2), Family::kIpv4, 0, 443, out) == 0);
  CHECK(bundle(std::span(many).first(2), Family::kIpv4, 0, 50000, out) == 0);
  small[5] = 8;  // another length than it has
  CHECK(bundle(std::span(many).first(1), Family::kIpv4, 0, kDefaultPort, out) == 0);
}
