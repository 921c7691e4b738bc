// SPDX-License-Identifier: BSD-3-Clause
// Batches on an endpoint: datagrams that share caravans, and caravans that become batches for the
// kernel.
#include <catch2/catch.hpp>
#include <map>

#include "caravan/core/batcher.h"
#include "caravan/core/regroup.h"
#include "tests/caravan/unit/capture.h"
#include "tests/caravan/unit/same.h"

using namespace caravan;
using namespace test;

namespace {

// A datagram of a flow, made by hand: its own checksum is set by what set_udp_checksum() was tested
// to do.
Packet datagram(int version, uint16_t sport, size_t n, uint8_t last = 2, uint8_t fill = 0x5a) {
  const size_t ip_len = version == 4 ? 20 : 40;
  Packet p(ip_len + 8 + n, fill);
  std::fill(p.begin(), p.begin() + static_cast<ptrdiff_t>(ip_len + 8), uint8_t{0});
  if (version == 4) {
    const Packet head{
        0x45, 0,   0,  0,   0x12, static_cast<uint8_t>(n), 0x40, 0, 64, 17, 0, 0, 10, 9, 0,
        2,    198, 51, 100, last};
    std::copy(head.begin(), head.end(), p.begin());
    p[2] = static_cast<uint8_t>(p.size() >> 8);
    p[3] = static_cast<uint8_t>(p.size());
    uint32_t sum = 0;
    for (size_t i = 0; i < 20; i += 2) sum += static_cast<uint32_t>(p[i] << 8 | p[i + 1]);
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    p[10] = static_cast<uint8_t>(~sum >> 8);
    p[11] = static_cast<uint8_t>(~sum);
  } else {
    p[0] = 0x60;
    p[4] = static_cast<uint8_t>((8 + n) >> 8);
    p[5] = static_cast<uint8_t>(8 + n);
    p[6] = 17;
    p[7] = 64;
    p[8] = 0xfd;
    p[23] = 2;
    p[24] = 0x20;
    p[39] = last;
  }
  p[ip_len] = static_cast<uint8_t>(sport >> 8);
  p[ip_len + 1] = static_cast<uint8_t>(sport);
  p[ip_len + 2] = 0x01;
  p[ip_len + 3] = 0xbb;
  p[ip_len + 4] = static_cast<uint8_t>((8 + n) >> 8);
  p[ip_len + 5] = static_cast<uint8_t>(8 + n);
  set_udp_checksum(p, version == 4 ? Family::kIpv4 : Family::kIpv6);
  return p;
}

std::vector<Packet> batch(Batcher& b, const std::vector<Packet>& in) {
  for (const Packet& p : in) b.add(p);
  std::vector<Packet> out;
  for (const auto& p : b.finish()) out.emplace_back(p.bytes.begin(), p.bytes.end());
  b.clear();
  return out;
}

}  // namespace

TEST_CASE("batcher: what came together and may share leaves as caravans, each pair in its order") {
  for (const int version : {4, 6}) {
    Batcher b(kDefaultPort, [](const UdpPacket&) { return uint16_t{9000}; });
    for (int round = 0; round < 3; ++round) {
      std::vector<Packet> in;
      for (size_t i = 0; i < 40; ++i)
        in.push_back(datagram(version, static_cast<uint16_t>(50000 + i % 3), i * 41 % 1400,
                              static_cast<uint8_t>(2 + i % 2)));
      in.push_back(datagram(version, 4500, 100));  // a tunnel
      in.push_back(datagram(version, 50000, 9000));
      in.push_back(datagram(version, 50000, 5));
      std::map<uint8_t, std::vector<Packet>> got, expected;
      const size_t last = version == 4 ? 19 : 39;
      for (const Packet& p : in) expected[p[last]].push_back(p);
      const auto out = batch(b, in);
      CHECK(out.size() < in.size() / 3);
      for (const Packet& p : out) {
        CHECK(p.size() <= (p.size() == datagram(version, 1, 9000).size() ? p.size() : 9000));
        if (!is_caravan_packet(p)) {
          got[p[last]].push_back(p);
          continue;
        }
        Refusal refusal{};
        for (const Packet& d : take_apart(p, refusal)) got[p[last]].push_back(d);
        CHECK(refusal == Refusal::kNone);
      }
      REQUIRE(got.size() == expected.size());
      for (const auto& [dst, packets] : expected) {
        REQUIRE(got[dst].size() == packets.size());
        for (size_t i = 0; i < packets.size(); ++i) CHECK(same_bytes(got[dst][i], packets[i]));
      }
    }
  }
}

TEST_CASE(
    "batcher: nothing is bundled for who takes no caravans, and a lone datagram leaves as it "
    "came") {
  Batcher b(kDefaultPort, [](const UdpPacket& p) {
    return p.dst().bytes[3] == 3 ? uint16_t{9000} : uint16_t{0};
  });
  const std::vector<Packet> in{datagram(4, 1, 10, 2), datagram(4, 1, 20, 2), datagram(4, 1, 30, 3)};
  const auto out = batch(b, in);
  REQUIRE(out.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(same_bytes(out[i], in[i]));
  // Multicast has no one receiver; what isn't UDP passes in its place.
  Batcher all(kDefaultPort, [](const UdpPacket&) { return uint16_t{9000}; });
  Packet tcp = datagram(4, 1, 10, 3);
  tcp[9] = 6;
  const auto mixed =
      batch(all, {datagram(4, 1, 1, 3), datagram(4, 1, 2, 3), tcp, datagram(4, 1, 3, 3)});
  REQUIRE(mixed.size() == 3);
  CHECK(is_caravan_packet(mixed[0]));
  CHECK(same_bytes(mixed[1], tcp));
}

TEST_CASE("regroup: runs of one flow and size become groups, in order, with every byte") {
  for (const int version : {4, 6}) {
    const size_t ip_len = version == 4 ? 20 : 40;
    const std::vector<std::tuple<uint16_t, size_t>> what = {
        {1, 1200}, {1, 1200}, {1, 1200}, {1, 700},  {1, 700}, {2, 700},
        {1, 0},    {1, 0},    {1, 1200}, {1, 1300}, {1, 1}};
    std::vector<Packet> in;
    for (size_t i = 0; i < what.size(); ++i)
      in.push_back(datagram(version, std::get<0>(what[i]), std::get<1>(what[i]), 2,
                            static_cast<uint8_t>(i)));
    in[8][ip_len + 7] ^= 1;  // damaged
    std::vector<Group> groups;
    Packet bytes;
    Regroup r(true, [&](const Group& g) {
      groups.push_back(g);
      for (const Bytes p : g.payloads) bytes.insert(bytes.end(), p.begin(), p.end());
    });
    Packet expected;
    for (const Packet& p : in) {
      UdpPacket u;
      REQUIRE(parse_udp(p, u));
      r.add({u.src(), u.dst(), u.tos, 64}, u.datagram);
      expected.insert(expected.end(), p.begin() + static_cast<ptrdiff_t>(ip_len + 8), p.end());
    }
    r.flush();
    CHECK(same_bytes(bytes, expected));
    std::vector<size_t> counts;
    for (const Group& g : groups) counts.push_back(g.payloads.size());
    CHECK(counts == std::vector<size_t>{4, 1, 1, 1, 1, 1, 2});
    CHECK(groups[0].size == 1200);
    CHECK_FALSE(groups[5].proved);
    // A lone one is the packet that came, identification and all.
    Packet lone(groups[2].headers.begin(),
                groups[2].headers.begin() + static_cast<ptrdiff_t>(groups[2].header_bytes));
    lone.insert(lone.end(), groups[2].payloads[0].begin(), groups[2].payloads[0].end());
    CHECK(same_bytes(lone, in[5]));
    // A group is one UDP packet, of which the kernel makes the same datagrams again.
    Packet whole(groups[0].headers.begin(),
                 groups[0].headers.begin() + static_cast<ptrdiff_t>(groups[0].header_bytes));
    for (const Bytes p : groups[0].payloads) whole.insert(whole.end(), p.begin(), p.end());
    std::vector<uint8_t> cut;
    std::vector<size_t> lengths;
    REQUIRE(cut_datagrams(whole, 1200, cut, lengths));
    REQUIRE(lengths.size() == 4);
    size_t at = 0;
    for (size_t i = 0; i < 4; at += lengths[i++]) {
      Packet d(cut.begin() + static_cast<ptrdiff_t>(at),
               cut.begin() + static_cast<ptrdiff_t>(at + lengths[i]));
      Packet e = in[i];
      if (version == 4)
        d[4] = e[4], d[5] = e[5], d[10] = e[10], d[11] = e[11];  // identifications count up
      CHECK(same_bytes(d, e));
    }
    // Without such a kernel: one by one.
    size_t singles = 0;
    Regroup one(false, [&](const Group& g) { singles += g.payloads.size() == 1; });
    for (const Packet& p : in) {
      UdpPacket u;
      REQUIRE(parse_udp(p, u));
      one.add({u.src(), u.dst(), u.tos, 64}, u.datagram);
    }
    one.flush();
    CHECK(singles == in.size());
  }
}

TEST_CASE("regroup: a group has at most 64 datagrams and fits an IP packet") {
  std::vector<Packet> in(150, datagram(4, 1, 100));
  for (int i = 0; i < 60; ++i) in.push_back(datagram(4, 2, 1472));
  size_t most = 0, largest = 0, total = 0;
  Regroup r(true, [&](const Group& g) {
    most = std::max(most, g.payloads.size());
    largest = std::max(largest, g.bytes + g.header_bytes);
    total += g.payloads.size();
  });
  for (const Packet& p : in) {
    UdpPacket u;
    REQUIRE(parse_udp(p, u));
    r.add({u.src(), u.dst(), u.tos, 64}, u.datagram);
  }
  r.flush();
  CHECK(most == 64);
  CHECK(largest <= 65535);
  CHECK(largest > 60000);
  CHECK(total == 210);
}

TEST_CASE("cut_datagrams: what isn't a large UDP packet isn't cut") {
  std::vector<uint8_t> out;
  std::vector<size_t> lengths;
  Packet p = datagram(4, 1, 3000);
  CHECK_FALSE(cut_datagrams(p, 0, out, lengths));
  CHECK_FALSE(cut_datagrams(Bytes(p).first(27), 100, out, lengths));
  CHECK_FALSE(cut_datagrams({}, 100, out, lengths));
  p[9] = 6;
  CHECK_FALSE(cut_datagrams(p, 100, out, lengths));
  p = datagram(6, 1, 3000);
  CHECK_FALSE(cut_datagrams(Bytes(p).first(47), 100, out, lengths));
  CHECK(lengths.empty());
}
