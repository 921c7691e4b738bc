// SPDX-License-Identifier: BSD-3-Clause
// What may share a caravan and what may not, when it leaves, and that nothing is lost or overtaken.
#include <catch2/catch.hpp>

#include "tests/caravan/dp/bed.h"
#include "tests/caravan/unit/capture.h"
#include "tests/caravan/unit/same.h"

using namespace test;
using namespace std::chrono_literals;

namespace {

std::vector<Frame> frames(const Udp& u, std::initializer_list<size_t> sizes) {
  std::vector<Frame> all;
  uint8_t i = 0;
  for (const size_t n : sizes) {
    Udp d = u;
    d.size = n;
    d.seed = ++i;
    d.lower.id = static_cast<uint16_t>(0x7000 + 5 * i);
    d.lower.flow_label = u.lower.version == 6 ? 0x12340u + i : 0;
    all.push_back(d.build());
  }
  return all;
}

// All of `in`, in order, whatever of it left in caravans.
void check_all_there(CaravanBed& bed, const std::vector<Bytes>& out, const std::vector<Frame>& in) {
  std::vector<Bytes> got;
  for (const Bytes& f : out) {
    if (!is_caravan(f)) {
      got.push_back(f);
      continue;
    }
    for (const Bytes& d : bed.apart({f})) got.push_back(d);
  }
  REQUIRE(got.size() == in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    INFO("datagram " << i);
    CHECK(same_bytes(got[i], in[i].bytes));
  }
}

struct Case {
  NoLeak none;
  Udp base;
  CaravanBed bed;
  explicit Case(int version, const caravan::Bundler::Limits& limits = {})
      : base(version == 4 ? Udp{} : udp6()), bed(limits) {
    bed.known(base.lower.dst, version);
  }
};

}  // namespace

TEST_CASE("bundler: the test vectors, byte for byte, from and to packet buffers") {
  NoLeak none;
  CaravanBed bed;
  bed.known(addr4(10, 9, 0, 2), 4);
  Addr six{0x20, 0x01, 0x0d, 0xb8, 0, 9};
  six[15] = 2;
  bed.known(six, 6);
  const auto frame = [](const Packet& ip) {
    Bytes f{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0};
    if (ip[0] >> 4 == 6) f[12] = 0x86, f[13] = 0xdd;
    f.insert(f.end(), ip.begin(), ip.end());
    return f;
  };
  std::vector<Frame> waiting;
  unsigned caravans = 0;
  for (const Packet& p : read_vectors("vectors.pcap")) {
    if (!is_caravan_packet(p)) {
      waiting.push_back({frame(p)});
      continue;
    }
    INFO("caravan " << caravans++);
    bed.give(waiting);
    bed.advance(1s);
    const auto out = bed.out();
    REQUIRE(out.size() == 1);
    CHECK(same_bytes(out[0], frame(p)));
    // In one buffer, and cut into buffers as a NIC might.
    for (const uint32_t step : {100'000u, 2048u, 333u, 61u}) {
      Frame f{frame(p)};
      for (uint32_t at = step; at < f.bytes.size(); at += step) f.cuts.push_back(at);
      const auto got = bed.apart(f);
      REQUIRE(got.size() == waiting.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(same_bytes(got[i], waiting[i].bytes));
    }
    waiting.clear();
  }
  CHECK(caravans == 15);
  CHECK(bed.left.empty());
}

TEST_CASE("bundler: datagrams of one pair that come together leave as one caravan") {
  for (const int version : {4, 6}) {
    INFO("IPv" << version);
    Case c(version);
    auto in = frames(c.base, {1200, 0, 1, 77});
    Udp other = c.base;  // of another port: the same pair
    other.sport = 3478;
    other.size = 333;
    in.push_back(other.build());
    c.bed.give(in);
    CHECK(c.bed.out().empty());
    c.bed.advance(50us);
    const auto out = c.bed.out();
    REQUIRE(out.size() == 1);
    REQUIRE(is_caravan(out[0]));
    const Decoded d = decode(out[0]);
    CHECK(d.ip_ok);
    CHECK(d.trailer == 0);
    if (version == 6) CHECK(d.checksum_ok);
    check_all_there(c.bed, out, in);
    CHECK(c.bed.count.bundle_out_datagrams == 5);
    CHECK(c.bed.count.bundle_end_hold == 1);
  }
}

TEST_CASE("bundler: caravans of a pair keep to one path, whichever flow begins them") {
  for (const int version : {4, 6}) {
    Case c(version);
    std::vector<uint16_t> ports;
    for (const uint16_t sport : {443, 3478, 5004}) {
      Udp other = c.base;
      other.sport = sport;
      c.bed.give({other.build(), c.base.build(), c.base.build()});
      c.bed.advance(1ms);
      for (const Bytes& f : c.bed.out()) {
        REQUIRE(is_caravan(f));
        const Decoded d = decode(f);
        ports.push_back(static_cast<uint16_t>(d.l4[0] << 8 | d.l4[1]));
      }
    }
    REQUIRE(ports.size() == 3);
    CHECK(ports == std::vector<uint16_t>(3, ports[0]));
    CHECK(ports[0] >= 49152);
  }
}

TEST_CASE("bundler: a lone datagram leaves as it came, with its burst, padding and all") {
  for (const int version : {4, 6}) {
    Case c(version);
    c.base.size = 2;
    c.base.pad_to = 70;
    for (int i = 0; i < 5; ++i) {
      const Frame f = c.base.build();
      c.bed.give({f});
      const auto out = c.bed.out();
      REQUIRE(out.size() == 1);
      CHECK(same_bytes(out[0], f.bytes));
      c.bed.advance(1ms);
    }
    CHECK(c.bed.bundler.held() == 0);
    // Two of them: a caravan at the end of the burst, without the padding.
    c.bed.give({c.base.build(), c.base.build()});
    const auto out = c.bed.out();
    REQUIRE(out.size() == 1);
    CHECK(is_caravan(out[0]));
    CHECK(c.bed.apart({out[0]})[1].size() == (version == 4 ? 44 : 64));
    // Close behind a caravan it would overtake that at the host: it is one itself, but leaves at
    // once.
    c.bed.give(frames(c.base, {9, 9, 9, 9, 9, 9}));
    c.bed.advance(1ms);
    c.bed.out();
    for (int i = 0; i < 3; ++i) {
      c.bed.give({c.base.build()});
      const auto close = c.bed.out();
      REQUIRE(close.size() == 1);
      REQUIRE(is_caravan(close[0]));
      if (version == 6) CHECK(decode(close[0]).checksum_ok);
      CHECK(c.bed.apart({close[0]}).at(0).size() == (version == 4 ? 44 : 64));
      c.bed.advance(19ms);
    }
    // A damaged one isn't made good.
    Udp bad = c.base;
    bad.damage = 1;
    c.bed.give({bad.build()});
    check_all_there(c.bed, c.bed.out(), {[&] {
                      bad.pad_to = version == 4 ? 0 : 70;
                      return bad.build();
                    }()});
    // After a pause it is a lone one again.
    c.bed.advance(20ms);
    c.bed.give({c.base.build()});
    CHECK(same_bytes(c.bed.out().at(0), c.base.build().bytes));
  }
}

TEST_CASE(
    "bundler: nothing is held longer than the hold limit, nor beyond the burst where it is 0") {
  Case c(4);
  for (int i = 0; i < 20; ++i) {
    c.bed.give(frames(c.base, {100, 100}));
    const auto deadline = c.bed.bundler.next_deadline();
    REQUIRE((i == 0 || deadline));
    if (deadline) CHECK(*deadline <= c.bed.now + 50us);
    c.bed.advance(10us);
  }
  c.bed.advance(50us);
  CHECK(c.bed.bundler.held() == 0);
  CHECK(!c.bed.bundler.next_deadline());
  Case z(4, {.hold = 0ns});
  z.bed.give(frames(z.base, {100, 100, 100, 100}));
  CHECK(z.bed.out().size() == 1);
  CHECK(z.bed.bundler.held() == 0);
}

TEST_CASE("bundler: no caravan is larger than the inside MTU or than its host takes") {
  for (const auto& [version, mtu, host] :
       {std::tuple{4, 9000, 9000}, {6, 9000, 4000}, {4, 2500, 9000}, {6, 9000, 1280}}) {
    Case c(version, {.mtu = static_cast<uint16_t>(mtu)});
    c.bed.known(c.base.lower.dst, version, static_cast<uint16_t>(host));
    std::vector<Frame> in;
    for (size_t n = 0; n < 1400; n += 37) {
      Udp u = c.base;
      u.size = n;
      in.push_back(u.build());
    }
    for (size_t i = 0; i < in.size(); i += 32)
      c.bed.give({in.begin() + static_cast<ptrdiff_t>(i),
                  in.begin() + static_cast<ptrdiff_t>(std::min(i + 32, in.size()))});
    c.bed.advance(1ms);
    const auto out = c.bed.out();
    size_t largest = 0;
    for (const Bytes& f : out) {
      if (is_caravan(f)) largest = std::max(largest, f.size() - 14);
    }
    CHECK(largest <= static_cast<size_t>(std::min(mtu, host)));
    CHECK(largest + 1440 > static_cast<size_t>(std::min(mtu, host)));
    check_all_there(c.bed, out, in);
  }
}

TEST_CASE("bundler: at most 64 datagrams, and no more buffers than the port takes") {
  Case c(4);
  c.base.size = 0;
  std::vector<Frame> in(31, c.base.build());
  for (int i = 0; i < 5; ++i) c.bed.give(in);
  c.bed.advance(1ms);
  unsigned most = 0, total = 0;
  for (const Bytes& f : c.bed.out()) {
    most = std::max<unsigned>(most, f[14 + 20 + 8 + 4]);
    total += static_cast<unsigned>(c.bed.apart({f}).size());
  }
  CHECK(most == 64);
  CHECK(total == 155);
  Case few(4, {.max_segs = 8});
  few.base.cuts = {200, 400};
  few.bed.give(frames(few.base, {1000, 1000, 1000, 1000, 1000}));
  few.bed.advance(1ms);
  CHECK(few.bed.out_port.most_buffers <= 8);
}

TEST_CASE("bundler: what differs in the outer header ends a caravan, and order is kept") {
  for (const int version : {4, 6}) {
    const std::vector<std::function<void(Lower&)>> changes = {
        [](Lower& l) { l.tos = 0x28; },
        [](Lower& l) { l.tos = 3; },  // a class; a congestion mark
        [](Lower& l) { l.ttl = 63; },
        [](Lower& l) { l.src_mac[5] = 9; },
        [](Lower& l) { l.dst_mac[5] = 9; },
        [](Lower& l) {
          l.tags = {{0x8100, 7}};
        },
        [version](Lower& l) { version == 4 ? void(l.df = false) : void(l.ttl = 65); }};
    for (size_t k = 0; k < changes.size(); ++k) {
      INFO("IPv" << version << " change " << k);
      Case c(version);
      auto in = frames(c.base, {100, 200, 300});
      Udp changed = c.base;
      changes[k](changed.lower);
      for (Frame& f : frames(changed, {101, 202})) in.push_back(f);
      for (Frame& f : frames(c.base, {33})) in.push_back(f);
      c.bed.give(in);
      c.bed.advance(1ms);
      const auto out = c.bed.out();
      CHECK(out.size() == 3);
      check_all_there(c.bed, out, in);
      CHECK(c.bed.count.bundle_end_headers == 2);
    }
  }
}

TEST_CASE(
    "bundler: tunnels, the caravan port, fragments, odd forms and strange addresses never share") {
  for (const int version : {4, 6}) {
    const std::vector<std::function<Frame(Udp)>> odd = {
        [](Udp u) { return u.dport = 4789, u.build(); },
        [](Udp u) { return u.sport = 51820, u.build(); },
        [](Udp u) { return u.dport = 7475, u.build(); },
        [](Udp u) { return u.sport = 7475, u.build(); },
        [version](Udp u) {  // a first and a last fragment
          if (version == 4) return u.lower.mf = true, u.build();
          return u.lower.extensions = {{44, Bytes{0, 0, 0, 1, 0, 0, 0, 1}}}, u.build();
        },
        [version](Udp u) {
          if (version == 4) return u.lower.frag_offset = 100, u.build();
          return u.lower.extensions = {{0, Bytes{0, 0, 1, 4, 0, 0, 0, 0}}}, u.build();
        },
        [version](Udp u) {
          return version == 4 ? (u.lower.ip_options = Bytes{1, 1, 1, 1}, u.build())
                              : (u.with_checksum = false, u.build());
        },
        [](Udp u) { return u.ol_flags = RTE_MBUF_F_RX_L4_CKSUM_BAD, u.build(); },
        [](Udp u) { return u.ol_flags = RTE_MBUF_F_RX_LRO, u.build(); },
        [version](Udp u) {  // UDP options behind the datagram
          Frame f = u.build();
          f.bytes[14 + (version == 4 ? 20 : 40) + 5] ^= 8;
          return f;
        },
        [](Udp u) { return u.size = 8990, u.build(); },
    };
    for (size_t k = 0; k < odd.size(); ++k) {
      INFO("IPv" << version << " kind " << k);
      Case c(version);
      auto in = frames(c.base, {100, 200});
      Udp u = c.base;
      in.push_back(odd[k](u));
      for (Frame& f : frames(c.base, {300, 400})) in.push_back(f);
      c.bed.give(in);
      c.bed.advance(1ms);
      const auto out = c.bed.out();
      REQUIRE(out.size() == 3);
      CHECK(same_bytes(out[1], in[2].bytes));
      CHECK(c.bed.apart({out[0]}).size() == 2);
      CHECK(c.bed.apart({out[2]}).size() == 2);
      CHECK(c.bed.left.empty());
    }
  }
  Case c(4);
  c.bed.known(addr4(224, 0, 0, 5), 4);
  c.base.lower.dst = addr4(224, 0, 0, 5);
  c.bed.give(frames(c.base, {10, 10, 10}));
  CHECK(c.bed.out().size() == 3);
  CHECK(c.bed.count.bundle_not_address == 3);
}

// Those in a row are recognised by the one before: each of these differs in what that doesn't say.
TEST_CASE("bundler: what follows in a row is looked at as closely") {
  constexpr uint64_t good = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  const auto apart = [](Case& c, const std::vector<Frame>& in, size_t packets) {
    c.bed.give(in);
    c.bed.advance(1ms);
    const auto out = c.bed.out();
    CHECK(out.size() == packets);
    check_all_there(c.bed, out, in);
  };
  const auto row = [](const Udp& u) { return frames(u, {100, 200, 300, 400}); };
  SECTION("another VLAN") {
    Case c(4);
    Udp other = c.base;
    c.base.lower.tags = {{0x8100, 7}};
    other.lower.tags = {{0x8100, 8}};
    auto in = row(c.base);
    for (Frame& f : row(other)) in.push_back(f);
    apart(c, in, 2);
  }
  SECTION("a header whose checksum is wrong") {
    Case c(4);
    auto in = row(c.base);
    in[2].bytes[14 + 10] ^= 1;
    apart(c, in, 3);
  }
  SECTION("an extension header that looks like UDP") {
    Case c(6);
    c.base.sport = 17 << 8;
    c.base.dport = 1 << 8 | 4;  // PadN, 4 bytes
    auto in = row(c.base);
    Udp u = c.base;
    u.size = 292;
    u.lower.extensions = {{0, Bytes{0, 0, 1, 4, 1, 44, 7, 7}}};
    in.insert(in.begin() + 2, u.build());
    apart(c, in, 3);
  }
  SECTION("no checksum where there has to be one") {
    Case c(6);
    c.base.ol_flags = good;
    auto in = row(c.base);
    const size_t at = 14 + 40 + 6;
    in[2].bytes[at] = in[2].bytes[at + 1] = 0;
    apart(c, in, 3);
  }
  SECTION("a first one that the port says nothing of, and that is damaged") {
    Case c(6);
    auto in = row(c.base);
    for (size_t i = 1; i < in.size(); ++i) in[i].ol_flags = good;
    in[0].bytes.back() ^= 1;
    apart(c, in, 2);
    CHECK(c.bed.count.bundle_end_checksum == 0);
  }
  SECTION("more buffers than the port takes") {
    Case c(4, {.max_segs = 3});
    apart(c, frames(c.base, {100, 100, 100, 100, 100, 100, 100}), 3);
    CHECK(c.bed.out_port.most_buffers == 3);
  }
  SECTION("more than may be held") {
    Case c(4, {.max_held = 3});
    apart(c, frames(c.base, {100, 100, 100, 100, 100, 100, 100}), 3);
  }
  SECTION("ports that become a tunnel's") {
    Case c(4);
    const auto in = row(c.base);
    c.bed.give({in[0], in[1], in[2]});
    REQUIRE(c.bed.bundler.held() == 1);
    const uint16_t tunnels[] = {443};
    c.bed.bundler.set_tunnel_ports(tunnels);
    c.bed.give({in[3]});
    CHECK(c.bed.count.bundle_not_tunnel == 1);
    check_all_there(c.bed, c.bed.out(), in);
  }
  SECTION("a buffer that somebody else reads, or without room") {
    for (const bool shared : {true, false}) {
      Case c(4);
      const auto in = row(c.base);
      c.bed.give({in[0], in[1]});
      pxio::PktPtr m = to_mbuf(in[2], pools().buffers());
      rte_mbuf* third = m.get();
      if (shared) {
        rte_mbuf_refcnt_update(third, 1);
      } else {
        const Bytes bytes = in[2].bytes;
        REQUIRE(rte_pktmbuf_prepend(third, rte_pktmbuf_headroom(third)) != nullptr);
        REQUIRE(rte_pktmbuf_trim(third, static_cast<uint16_t>(third->pkt_len - bytes.size())) == 0);
        std::memcpy(pxio::data(*third), bytes.data(), bytes.size());
      }
      REQUIRE(c.bed.bundler.add(m.release(), pxio::parse(*third, pxio::Link::kEthernet), c.bed.now));
      c.bed.give({in[3]});
      c.bed.advance(1ms);
      check_all_there(c.bed, c.bed.out(), in);
      CHECK(c.bed.count.bundle_not_buffer == 1);
      if (shared) pxio::PktPtr(third).reset();
    }
  }
}

TEST_CASE("bundler: what has no room for another one leaves at once") {
  Case c(4);
  c.bed.give(frames(c.base, {1400, 1400, 1400, 1400, 1400}));
  CHECK(c.bed.bundler.held() == 1);
  c.bed.give(frames(c.base, {1400}));
  CHECK(c.bed.bundler.held() == 0);
  CHECK(c.bed.count.bundle_end_full == 1);
}

TEST_CASE("bundler: a damaged datagram spoils no others, and stays damaged") {
  for (const int version : {4, 6}) {
    for (const size_t place : {0, 1, 3}) {
      INFO("IPv" << version << " place " << place);
      Case c(version);
      auto in = frames(c.base, {500, 501, 502, 503});
      Udp bad = c.base;
      bad.size = 77;
      bad.damage = 1;
      bad.cuts = {90, 95};
      in.insert(in.begin() + static_cast<ptrdiff_t>(place), bad.build());
      c.bed.give(in);
      c.bed.advance(1ms);
      const auto out = c.bed.out();
      check_all_there(c.bed, out, in);
      for (const Bytes& f : out)
        if (version == 6 && is_caravan(f)) CHECK(decode(f).checksum_ok);
      // IPv4: it may share, the outer header claims nothing.
      CHECK(out.size() == (version == 4 ? 1 : place == 0 ? 2 : 3));
    }
  }
  // What the port has proved isn't read again.
  Case c(6);
  c.base.ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  c.bed.give(frames(c.base, {500, 501, 502}));
  CHECK(c.bed.count.bundle_summed == 0);
}

TEST_CASE("bundler: hosts that haven't asked get nothing but what came") {
  Case c(4);
  c.base.lower.dst = addr4(10, 9, 0, 3);
  c.bed.give(frames(c.base, {10, 20}));
  CHECK(c.bed.left.size() == 2);
  CHECK(c.bed.out().empty());
  // Nor does one whose time is over.
  c.bed.hosts.set({{caravan::Family::kIpv4, addr4(10, 9, 0, 3)}, 9000, c.bed.now + 1s}, c.bed.now);
  c.bed.give(frames(c.base, {10, 20}));
  CHECK(c.bed.out().size() == 1);
  c.bed.advance(1s);
  c.bed.give(frames(c.base, {10, 20}));
  CHECK(c.bed.left.size() == 4);
}

TEST_CASE("bundler: observe-only counts what would be bundled and bundles nothing") {
  Case c(4, {.observe = true});
  c.base.lower.dst = addr4(10, 9, 0, 77);  // for any host
  const auto in = frames(c.base, {1200, 1200, 1200, 1200, 1200, 1200, 1200, 1200});
  c.bed.give(in);
  c.bed.advance(1ms);
  CHECK(c.bed.out().empty());
  REQUIRE(c.bed.left.size() == in.size());
  for (size_t i = 0; i < in.size(); ++i) CHECK(same_bytes(c.bed.left[i], in[i].bytes));
  CHECK(c.bed.count.observed_caravans == 1);
  CHECK(c.bed.count.observed_datagrams == 7);
  CHECK(c.bed.count.bundle_out_caravans == 0);
}

TEST_CASE("bundler: with every slot taken datagrams pass, and what is held is freed at the end") {
  NoLeak none;
  CaravanBed bed({}, 4);
  for (uint8_t i = 0; i < 12; ++i) bed.known(addr4(10, 9, 0, i), 4);
  std::vector<Frame> burst;
  for (uint8_t i = 0; i < 8; ++i) {
    Udp u;
    u.lower.dst = addr4(10, 9, 0, i);
    u.size = 50;
    for (int k = 0; k < 4; ++k) burst.push_back(u.build());
  }
  bed.give(burst);
  CHECK(bed.bundler.held() == 4);
  CHECK(bed.count.bundle_no_slot == 16);
  CHECK(bed.out().size() == 16);
}

TEST_CASE("unbundler: caravans that are refused, dropped and damaged, and pools run dry") {
  NoLeak none;
  CaravanBed bed;
  unsigned i = 0;
  for (const Packet& p : read_vectors("refused.pcap")) {
    INFO("packet " << i++);
    Bytes f{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0};
    if (p[0] >> 4 == 6) f[12] = 0x86, f[13] = 0xdd;
    f.insert(f.end(), p.begin(), p.end());
    CHECK(bed.apart({f}).empty());
  }
  CHECK(bed.count.drop_unbundle_nested == 4);
  CHECK(bed.count.drop_unbundle_ecn == 2);
  CHECK(bed.count.drop_unbundle_malformed == i - 6);
  CHECK(bed.count.unbundle_out == 0);
  Case c(6);
  c.bed.give(frames(c.base, {1000, 1000, 1000}));
  c.bed.advance(1ms);
  const Bytes good = c.bed.out().at(0);
  CHECK(c.bed.apart({good, {}, RTE_MBUF_F_RX_L4_CKSUM_BAD}).empty());
  Bytes none_given = good;
  none_given[14 + 46] = none_given[14 + 47] = 0;
  CHECK(c.bed.apart({none_given}).empty());
  CHECK(c.bed.count.drop_unbundle_checksum == 2);
  // All or nothing, for any number of buffers that are left.
  for (unsigned left = 0; left < 8; ++left) {
    std::vector<rte_mbuf*> taken;
    pxio::PktPtr m = to_mbuf({good}, pools().buffers());
    rte_mempool* small = pools().buffers().small;
    for (rte_mbuf* b; (b = rte_pktmbuf_alloc(small)) != nullptr;) taken.push_back(b);
    for (unsigned k = 0; k < left; ++k) {
      rte_pktmbuf_free(taken.back());
      taken.pop_back();
    }
    const pxio::PacketView v = pxio::parse(*m, pxio::Link::kEthernet);
    caravan::Unbundler::Out made;
    const uint16_t n = c.bed.unbundler.take(std::move(m), v, made);
    CHECK(n == (left >= 6 ? 3 : 0));
    for (uint16_t k = 0; k < n; ++k) pxio::PktPtr(made[k]).reset();
    for (rte_mbuf* b : taken) rte_pktmbuf_free(b);
  }
  CHECK(c.bed.count.drop_unbundle_no_buffer == 6);
}

TEST_CASE("unbundler: ports that take no chains get single buffers") {
  Case c(4);
  c.bed.unbundler.set_limits({.max_segs = 1});
  const auto in = frames(c.base, {1400, 10, 1400});
  c.bed.give(in);
  c.bed.advance(1ms);
  check_all_there(c.bed, c.bed.out(), in);
  CHECK(c.bed.most_buffers == 1);
}
