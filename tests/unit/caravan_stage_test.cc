// SPDX-License-Identifier: BSD-3-Clause
// Caravans at the gateway: for hosts that asked alone, order kept, every datagram once, nothing unaccounted.
#include "pxgw/dp/caravan_stage.h"

#include "caravan/core/caravan.h"
#include "pxgw/ctl/stats.h"
#include "tests/support/caravan_hosts.h"
#include "tests/support/checks.h"

using namespace test;

namespace {

using Mode = pxgw::Caravans::Mode;

pxgw::Policy policy(Mode mode = Mode::kOn) {
  pxgw::Policy p;
  p.caravans.mode = mode;
  p.caravans.tunnels = {4789};
  return p;
}

Lower between(int version, bool inbound) {
  Lower l;
  l.version = version;
  const Addr outside = version == 4 ? addr4(203, 0, 113, 1) : addr6(0x2001, 0xdb8, 1);
  const Addr inside = version == 4 ? addr4(10, 0, 0, 1) : addr6(0xfd09, 0, 2);
  l.src = inbound ? outside : inside;
  l.dst = inbound ? inside : outside;
  return l;
}

struct CaravanBed : CaravanHostsBed {
  explicit CaravanBed(const pxgw::Policy& p = policy()) : CaravanHostsBed(p) {}
  void ask(int version) { CaravanHostsBed::ask(between(version, true)); }
};

// A stream of datagrams whose ports and lengths tell them apart.
std::vector<Frame> stream(int version, bool inbound, size_t n, size_t base = 1200) {
  std::vector<Frame> r;
  for (size_t i = 0; i < n; ++i)
    r.push_back(udp(between(version, inbound), static_cast<uint16_t>(5000 + i % 3), 6000, base + i));
  return r;
}

// The outer datagram's payload, and the datagrams in it.
std::vector<Bytes> inside_of(const Decoded& d) {
  const Bytes payload(d.l4.begin() + 8, d.l4.end());
  caravan::Records records;
  REQUIRE(caravan::unbundle(payload, d.version == 4 ? caravan::Family::kIpv4 : caravan::Family::kIpv6,
                            caravan::kDefaultPort, records) == caravan::Refusal::kNone);
  std::vector<Bytes> r;
  for (size_t i = 0; i < records.count; ++i) {
    const auto at = payload.begin() + records.at[i].offset;
    r.emplace_back(at, at + records.at[i].length);
  }
  return r;
}

Frame caravan_of(const std::vector<Frame>& frames) {
  std::vector<caravan::UdpPacket> packets(frames.size());
  for (size_t i = 0; i < frames.size(); ++i)
    REQUIRE(caravan::parse_udp({frames[i].bytes.data() + 14, frames[i].bytes.size() - 14}, packets[i]));
  Bytes out(9000);
  out.resize(caravan::bundle_packet(packets, caravan::kDefaultPort, out));
  REQUIRE(!out.empty());
  Frame f{Bytes(frames[0].bytes.begin(), frames[0].bytes.begin() + 14)};
  f.bytes.insert(f.bytes.end(), out.begin(), out.end());
  return f;
}

Frame hello_frame(const caravan::Hello& h, const Lower& lower) {
  Bytes payload(caravan::kHelloBytes);
  caravan::encode(h, std::span<uint8_t, caravan::kHelloBytes>(payload));
  return udp(lower, 40000, caravan::kDefaultPort, payload);
}

caravan::Answer answer_in(const std::vector<Decoded>& out) {
  REQUIRE(out.size() == 1);
  CHECK(out[0].checksum_ok);
  const auto a = caravan::parse_answer({out[0].l4.data() + 8, out[0].l4.size() - 8});
  REQUIRE(a);
  return *a;
}

}  // namespace

TEST_CASE("Caravans: a host that asked gets a stream in jumbos, each datagram once and in order", "[caravan]") {
  for (const int version : {4, 6}) {
    CaravanBed b;
    b.ask(version);
    const auto frames = stream(version, true, 31);
    b.bed.in(frames);
    b.bed.advance(std::chrono::microseconds(100));
    std::vector<Bytes> got;
    const auto out = b.bed.inside();
    CHECK(out.size() <= 7);
    for (const Decoded& d : out) {
      CHECK(d.ip_len <= 9000);
      if (d.l4.size() < 2000) {
        got.push_back(d.l4);
      } else {
        for (const Bytes& each : inside_of(d)) got.push_back(each);
      }
    }
    REQUIRE(got.size() == frames.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == decode(frames[i].bytes).l4);
    CHECK(pxgw::unaccounted(b.bed.count()) == 0);
    CHECK(b.bed.count().caravan.bundle_out_datagrams + b.bed.count().caravan.bundle_alone == frames.size());
  }
}

TEST_CASE("Caravans: datagrams that a port merged are bundled one by one, behind those before them", "[caravan]") {
  for (const int version : {4, 6}) {
    CaravanBed b;
    constexpr size_t kSize = 1000;
    const auto merged = [&](size_t payload, uint16_t port = 5000, uint64_t state = RTE_MBUF_F_RX_L4_CKSUM_GOOD) {
      Frame f = udp(between(version, true), port, 6000, payload);
      f.ol_flags = RTE_MBUF_F_RX_LRO | state;
      f.segsz = kSize;
      f.cuts = {500, 4000};
      return f;
    };
    const auto one = [&](size_t payload) {
      Frame f = udp(between(version, true), 5000, 6000, payload);
      f.ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
      return f;
    };
    b.bed.in({merged(5 * kSize)});  // its host hasn't asked
    auto out = b.bed.inside();
    REQUIRE(out.size() == 1);
    CHECK(out[0].l4.size() == 8 + 5 * kSize);
    b.ask(version);
    const std::vector<Frame> frames = {one(700), merged(13 * kSize + 5), one(900), merged(2 * kSize), one(300)};
    b.bed.in(frames);
    b.bed.advance(std::chrono::microseconds(100));
    out = b.bed.inside();
    CHECK(out.size() <= 4);
    std::vector<Bytes> got;
    for (const Decoded& d : out) {
      CHECK(d.ip_len <= 9000);
      for (const Bytes& each : inside_of(d)) got.push_back(each);
    }
    // Ports and bytes as they were; lengths and checksums are each datagram's own.
    std::vector<Bytes> want;
    for (const Frame& f : frames) {
      const Bytes l4 = decode(f.bytes).l4;
      for (size_t at = 8; at < l4.size(); at += kSize)
        want.emplace_back(l4.begin() + static_cast<ptrdiff_t>(at),
                          l4.begin() + static_cast<ptrdiff_t>(std::min(at + kSize, l4.size())));
    }
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(Bytes(got[i].begin() + 8, got[i].end()) == want[i]);
      CHECK(decode(udp(between(version, true), 5000, 6000, want[i]).bytes).l4 == got[i]);
    }
    const pxgw::Counters& c = b.bed.count();
    CHECK(c.udp_cut_pkts == 2);
    CHECK(c.udp_cut_datagrams == 16);
    CHECK(c.caravan.bundle_not_form == 0);
    // Tunnels aren't looked into, and what may be damaged isn't given new checksums.
    b.bed.in({merged(3 * kSize, 4789)});
    b.bed.in({merged(3 * kSize, 5000, 0)});
    out = b.bed.inside();
    REQUIRE(out.size() == 2);
    for (const Decoded& d : out) CHECK(d.l4.size() == 8 + 3 * kSize);
    CHECK(pxgw::unaccounted(b.bed.count()) == 0);
  }
}

TEST_CASE("Untouched: a host that didn't ask, and whatever isn't for bundling, bit for bit and in order", "[caravan]") {
  CaravanBed b;
  const auto frames = stream(4, true, 20);
  b.bed.in(frames);
  check_untouched(b.bed.inside(), frames);
  b.ask(4);
  // A tunnel, a fragment and TCP among the datagrams.
  Lower piece = between(4, true);
  piece.df = false;
  piece.mf = true;
  std::vector<Frame> strange = {udp(between(4, true), 4789, 4789, 900), Frame{ip_frame(piece, 17, Bytes(64, 5))},
                                Frame{ip_frame(between(4, true), 17, Bytes(4, 5))}};
  for (const Frame& f : strange) b.bed.in({f});
  b.bed.advance(std::chrono::microseconds(100));
  check_untouched(b.bed.inside(), strange);
  CHECK(pxgw::unaccounted(b.bed.count()) == 0);
}

TEST_CASE("Delay: a lone datagram leaves at once, as it came", "[caravan]") {
  CaravanBed b;
  b.ask(4);
  const auto one = stream(4, true, 1);
  b.bed.in(one);
  check_untouched(b.bed.inside(), one);
}

TEST_CASE("Caravans: an inside host's comes apart into the datagrams that it was made of", "[caravan]") {
  for (const int version : {4, 6}) {
    CaravanBed b;
    const auto frames = stream(version, false, 6);
    const Frame plain = udp(between(version, false), 5000, 6000, 33);
    b.bed.out({plain, caravan_of(frames), plain});
    auto want = frames;
    want.insert(want.begin(), plain);
    want.push_back(plain);
    check_untouched(b.bed.outside(), want);
    CHECK(b.bed.count().caravan.unbundle_out == 6);
    CHECK(pxgw::unaccounted(b.bed.count()) == 0);
  }
}

TEST_CASE("Caravans: datagrams that wait for their place keep it before plain ones", "[caravan]") {
  pxgw::Policy p = policy();
  p.caravans.spacing = std::chrono::microseconds(20);
  CaravanBed b(p);
  const auto frames = stream(4, false, 5);
  const Frame plain = udp(between(4, false), 5000, 6000, 33);
  b.bed.out({caravan_of(frames), plain});
  CHECK(b.bed.outside().size() == 1);
  CHECK(pxgw::unaccounted(b.bed.count()) == 0);
  b.bed.advance(std::chrono::microseconds(40));
  CHECK(b.bed.outside().size() == 2);
  b.bed.advance(std::chrono::microseconds(200));
  const auto rest = b.bed.outside();
  REQUIRE(rest.size() == 3);
  check_untouched({rest.back()}, {plain});
}

TEST_CASE("Sizes: a datagram out of a caravan that the outside doesn't take is fragmented, or its sender told", "[caravan]") {
  CaravanBed b;
  std::vector<Frame> frames = stream(4, false, 2, 3000);
  b.bed.out({caravan_of(frames)});
  CHECK(b.bed.outside().empty());
  CHECK(b.bed.count().icmp_sent == 2);
  for (Frame& f : frames) f = udp([] { Lower l = between(4, false); l.df = false; return l; }(), 5000, 6000, 3000);
  b.bed.out({caravan_of(frames)});
  CHECK(b.bed.count().frag_in_pkts == 2);
  for (const Decoded& d : b.bed.outside()) CHECK(d.ip_len <= 1500);
  CHECK(pxgw::unaccounted(b.bed.count()) == 0);
}

// Case U: foreign and nested ones.
TEST_CASE("Caravans: foreign ones are dropped, from outside as from addresses that aren't inside", "[caravan]") {
  pxgw::Policy p = policy();
  p.include = {{4, 8, {10}}};
  CaravanBed b(p);
  b.ask(4);
  b.bed.in({caravan_of(stream(4, true, 3))});
  CHECK(b.bed.inside().empty());
  Lower spoofed = between(4, false);
  spoofed.src = addr4(198, 51, 100, 7);
  b.bed.out({caravan_of({udp(spoofed, 1, 2, 10), udp(spoofed, 1, 2, 20)}), hello_frame({.size = 9000}, spoofed)});
  CHECK(b.bed.outside().empty());
  CHECK(b.bed.inside().empty());
  CHECK(b.bed.count().drop_caravan_foreign == 3);
  CHECK(pxgw::unaccounted(b.bed.count()) == 0);
}

TEST_CASE("Caravans: a host registers by hello once it has shown that it gets the answer, and is forgotten", "[caravan]") {
  for (const int version : {4, 6}) {
    CaravanBed b;
    const Lower lower = between(version, false);
    caravan::Hello h{.size = 8000, .lifetime_ms = 1000, .nonce = 5};
    b.bed.out({hello_frame(h, lower)});
    const auto first = answer_in(b.bed.inside());
    CHECK(first.status == caravan::Status::kCookie);
    CHECK(first.nonce == 5);
    b.bed.in(stream(version, true, 31));
    CHECK(b.bed.inside().size() == 31);
    h.cookie = first.cookie;
    b.bed.out({hello_frame(h, lower)});
    const auto second = answer_in(b.bed.inside());
    CHECK(second.status == caravan::Status::kRegistered);
    CHECK(second.size == 8000);
    b.bed.in(stream(version, true, 31));
    b.bed.advance(std::chrono::microseconds(100));
    const auto bundled = b.bed.inside();
    CHECK(bundled.size() < 10);
    for (const Decoded& d : bundled) CHECK(d.ip_len <= 8000);
    b.bed.advance(std::chrono::milliseconds(1100));
    b.bed.in(stream(version, true, 31));
    CHECK(b.bed.inside().size() == 31);
    CHECK(b.bed.outside().empty());
    CHECK(pxgw::unaccounted(b.bed.count()) == 0);
  }
}

TEST_CASE("Caravans: where hellos are off they pass like any datagram", "[caravan]") {
  pxgw::Policy p = policy();
  p.caravans.hello = false;
  CaravanBed b(p);
  const Frame hello = hello_frame({.size = 9000}, between(4, false));
  b.bed.out({hello});
  check_untouched(b.bed.outside(), {hello});
}

TEST_CASE("Caravans: observing counts what would be bundled, and changes nothing", "[caravan]") {
  CaravanBed b(policy(Mode::kObserve));
  const auto frames = stream(4, true, 24);
  b.bed.in(frames);
  b.bed.advance(std::chrono::microseconds(100));
  check_untouched(b.bed.inside(), frames);
  CHECK(b.bed.count().caravan.observed_datagrams >= 20);
  CHECK(b.bed.count().caravan.observed_caravans >= 3);
  CHECK(pxgw::unaccounted(b.bed.count()) == 0);
}

TEST_CASE("Bounded: what is held leaves on a drain and on a new policy", "[caravan]") {
  for (const bool drains : {true, false}) {
    CaravanBed b;
    b.ask(4);
    b.bed.in(stream(4, true, 8));
    size_t left = b.bed.inside().size();
    if (drains) {
      b.bed.drain();
    } else {
      b.bed.apply(policy());
    }
    b.bed.flush_tx();
    left += b.bed.inside().size();
    CHECK(left >= 2);
    CHECK(b.bed.count().caravan.bundle_out_datagrams + b.bed.count().caravan.bundle_alone == 8);
  }
}
