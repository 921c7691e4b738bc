// SPDX-License-Identifier: BSD-3-Clause
// Any traffic: bundled, then taken apart, it is the same datagrams, each flow in its order, nothing
// larger or later than allowed, and every buffer is back. The seed is printed when it fails.
#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "tests/caravan/dp/bed.h"
#include "tests/caravan/unit/same.h"

using namespace test;
using namespace std::chrono_literals;

namespace {

struct Random {
  std::mt19937 engine;
  unsigned below(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(engine); }
  bool one_in(unsigned n) { return below(n) == 0; }
};

// Addresses and ports, fragments by addresses and identification alone.
std::string flow_of(const Bytes& frame) {
  const Decoded d = decode(frame);
  std::string key(d.src.begin(), d.src.end());
  key.append(d.dst.begin(), d.dst.end());
  if (d.proto == 17 && !d.mf && d.frag_offset == 0 && d.l4.size() >= 4)
    key.append(d.l4.begin(), d.l4.begin() + 4);
  return key;
}

Bytes without_padding(const Bytes& frame) {
  const Decoded d = decode(frame);
  return {frame.begin(), frame.end() - static_cast<ptrdiff_t>(d.trailer)};
}

Udp any_datagram(Random& r) {
  Udp u = r.one_in(2) ? Udp{} : udp6();
  const bool v6 = u.lower.version == 6;
  const auto host = static_cast<uint8_t>(r.below(6));
  u.lower.dst = v6 ? addr6(0xfd00, 9, host) : addr4(10, 9, 0, host);
  if (r.one_in(4)) u.lower.src = v6 ? addr6(0x2001, 0xdb8, 8) : addr4(198, 51, 100, 8);
  u.dport = static_cast<uint16_t>(50000 + r.below(3));
  if (r.one_in(40)) u.dport = 4500;
  if (r.one_in(80)) u.sport = 7475;
  constexpr size_t kSizes[] = {0, 1, 2, 3, 7, 8, 100, 531, 1200, 1200, 1200, 1350, 1472};
  u.size = r.one_in(3) ? r.below(1473) : kSizes[r.below(std::size(kSizes))];
  if (r.one_in(60)) u.size = 1473 + r.below(7000);
  if (r.one_in(30)) u.lower.tos = static_cast<uint8_t>(r.below(256));
  if (r.one_in(50)) u.lower.ttl = static_cast<uint8_t>(1 + r.below(255));
  if (r.one_in(50)) u.lower.tags = {{0x8100, static_cast<uint16_t>(r.below(4096))}};
  if (!v6) {
    if (r.one_in(50)) u.lower.df = false;
    if (r.one_in(60)) u.lower.mf = true;
    if (r.one_in(100)) u.lower.ip_options = Bytes{1, 1, 1, 1};
    u.lower.id = static_cast<uint16_t>(r.below(65536));
  } else {
    if (r.one_in(60)) u.lower.extensions = {{44, Bytes{0, 0, 0, 1, 0, 0, 0, 1}}};
    u.lower.flow_label = r.below(1 << 20);
  }
  if (r.one_in(20)) u.with_checksum = false;
  if (r.one_in(40)) u.damage = static_cast<uint16_t>(1 + r.below(100));
  if (u.damage == 0 && u.with_checksum && r.one_in(3)) u.ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  if (u.damage != 0 && r.one_in(2)) u.ol_flags = RTE_MBUF_F_RX_L4_CKSUM_BAD;
  if (r.one_in(3)) u.pad_to = 60;
  if (r.one_in(6))
    for (unsigned i = 1 + r.below(3); i != 0; --i) u.cuts.push_back(64 + r.below(600));
  u.seed = static_cast<uint8_t>(1 + r.below(255));
  return u;
}

size_t run(unsigned seed) {
  INFO("seed " << seed);
  Random r{std::mt19937(seed)};
  NoLeak none;
  caravan::Bundler::Limits limits;
  limits.mtu = r.one_in(2) ? uint16_t{9000} : static_cast<uint16_t>(1300 + r.below(7700));
  limits.max_segs = r.one_in(2) ? uint16_t{64} : static_cast<uint16_t>(1 + r.below(12));
  limits.hold = r.one_in(5) ? 0ns : pxio::Nanos(r.below(60'000));
  CaravanBed bed(limits, 1 + r.below(16), static_cast<uint16_t>(1 + r.below(10)));
  std::map<Addr, uint16_t> sizes;
  for (uint8_t i = 0; i < 5; ++i) {  // the sixth doesn't ask
    const auto size = static_cast<uint16_t>(r.one_in(2) ? 9000 : 1280 + r.below(8000));
    bed.known(addr4(10, 9, 0, i), 4, size);
    bed.known(addr6(0xfd00, 9, i), 6, size);
    sizes[addr4(10, 9, 0, i)] = sizes[addr6(0xfd00, 9, i)] = size;
  }
  std::map<std::string, std::deque<std::pair<Bytes, pxio::Nanos>>> sent;
  size_t datagrams = 0, caravans = 0;
  const auto collect = [&] {
    bed.out_tx.flush();
    std::vector<Decoded> out = bed.out_port.take();
    for (const Bytes& f : bed.left) {
      out.push_back(decode(f));
      out.back().time = bed.now;
    }
    bed.left.clear();
    for (const Decoded& d : out) {
      std::vector<Bytes> frames{d.frame};
      const bool mine = is_caravan(d.frame) && (d.l4[8] << 8 | d.l4[9]) == caravan::kWireMagic;
      if (mine) {
        ++caravans;
        REQUIRE(d.ip_ok);
        REQUIRE(d.ip_len <= std::min(sizes.at(d.dst), limits.mtu));
        if (d.version == 6) REQUIRE(d.checksum_ok);
        Frame f{d.frame};
        for (unsigned i = r.below(8); i != 0; --i)
          f.cuts.push_back(80 + r.below(static_cast<unsigned>(d.frame.size())));
        frames = bed.apart(f);
        REQUIRE(!frames.empty());
      }
      for (const Bytes& f : frames) {
        auto& flow = sent[flow_of(f)];
        REQUIRE(!flow.empty());
        const auto& [expected, when] = flow.front();
        if (mine) {
          REQUIRE(same_bytes(f, without_padding(expected)));
        } else {
          // A held one that nothing joined keeps its padding.
          REQUIRE(same_bytes(without_padding(f), without_padding(expected)));
        }
        REQUIRE(d.time - when <= std::max(limits.hold, 0ns) + 10us);  // a tick of this test
        flow.pop_front();
        ++datagrams;
      }
    }
  };
  size_t given = 0;
  for (unsigned burst = 0; burst < 60; ++burst) {
    std::vector<Frame> frames;
    const Udp like = any_datagram(r);
    for (unsigned n = 1 + r.below(32); n != 0; --n) {
      Udp u = any_datagram(r);
      if (r.below(3) != 0) {  // most of a burst is of one flow
        u = like;
        u.size = r.one_in(2) ? like.size : r.below(1472);
        u.seed = static_cast<uint8_t>(1 + r.below(255));
        u.cuts.clear();
      }
      frames.push_back(u.build());
      sent[flow_of(frames.back().bytes)].emplace_back(frames.back().bytes, bed.now);
      ++given;
    }
    bed.give(frames);
    collect();
    for (unsigned i = r.below(8); i != 0; --i) {
      bed.advance(10us);
      collect();
    }
  }
  bed.bundler.flush_all(bed.now);
  collect();
  REQUIRE(datagrams == given);
  for (const auto& [key, flow] : sent) REQUIRE(flow.empty());
  const caravan::Counters& c = bed.count;
  REQUIRE(c.bundle_in == c.bundle_out_datagrams + c.bundle_alone);
  REQUIRE(c.bundle_out_caravans == caravans);
  REQUIRE(c.unbundle_in == caravans);
  REQUIRE(c.unbundle_out == c.bundle_out_datagrams);
  return caravans;
}

}  // namespace

TEST_CASE("caravan property: what is bundled comes apart into what it was") {
  const unsigned first = std::random_device{}();
  size_t caravans = 0;
  for (unsigned i = 0; i < 60; ++i) caravans += run(first + i);
  CHECK(caravans > 1000);
}
