// SPDX-License-Identifier: BSD-3-Clause
// One parse result for all: its offsets and lengths, and what it refuses.
#include "pxio/dp/packet_view.h"

#include <catch2/catch.hpp>

#include "tests/support/decode.h"
#include "tests/support/eal.h"

using namespace test;
using pxio::Kind;
using pxio::Link;
using pxio::Opaque;
using pxio::PacketView;

namespace {

PacketView parse(const Frame& f, Link link = Link::kEthernet) {
  pxio::PktPtr p = to_mbuf(f, pools().buffers());
  const PacketView v = pxio::parse(*p, link);
  REQUIRE(to_bytes(*p) == f.bytes);  // parsing never changes the packet, however it is chained
  return v;
}

Tcp segment(int version) {
  Tcp t = version == 4 ? tcp4() : tcp6();
  return t.seq(1000).ack(2000).ts(11, 22).data(100).window(77);
}

void check_segment(const PacketView& v, const Tcp& t) {
  CHECK(v.kind == Kind::kTcp);
  CHECK(v.why == Opaque::kNone);
  CHECK(v.version == t.lower.version);
  CHECK(v.vlan_tags == t.lower.tags.size());
  CHECK(v.l2_len == (t.lower.ethernet ? 14 + 4 * t.lower.tags.size() : 0));
  CHECK(v.l3_len == (v.version == 4 ? 20 : 40));
  CHECK(v.l4_len == 32);
  CHECK(v.payload_len == t.payload_len());
  CHECK(v.ip_len == v.l3_len + 32u + t.payload_len());
  CHECK(v.seq == 1000);
  CHECK(v.ack == 2000);
  CHECK(v.window == 77);
  CHECK(v.ts_off == 24);
  CHECK(v.tsval == 11);
  CHECK(v.tsecr == 22);
}

}  // namespace

TEST_CASE("Parse: both families, no tag, one, two, and no Ethernet at all", "[parse]") {
  NoLeak guard;
  const int version = GENERATE(4, 6);
  const int tags = GENERATE(0, 1, 2);
  Tcp t = segment(version);
  for (int i = 0; i < tags; ++i) t.vlan(static_cast<uint16_t>(i + 5), tags == 2 && i == 0 ? 0x88a8 : 0x8100);
  check_segment(parse(t), t);
  t.lower.tags.clear();
  t.lower.ethernet = false;
  check_segment(parse(t, Link::kRawIp), t);
}

TEST_CASE("Parse: Ethernet padding isn't payload", "[parse]") {
  NoLeak guard;
  const int version = GENERATE(4, 6);
  const size_t len = GENERATE(0u, 1u, 2u, 5u, 6u);
  const int tags = GENERATE(0, 1, 2);
  Tcp t = version == 4 ? tcp4() : tcp6();
  for (int i = 0; i < tags; ++i) t.vlan(9);
  t.data(len).pad_to(100);
  if (len == 0) t.bytes({});
  const PacketView v = parse(t);
  CHECK(v.kind == Kind::kTcp);
  CHECK(v.payload_len == len);
}

TEST_CASE("Parse: headers cut anywhere over a chain read the same", "[parse]") {
  NoLeak guard;
  const int version = GENERATE(4, 6);
  Tcp t = segment(version);
  t.vlan(1).vlan(2);
  const auto size = static_cast<uint32_t>(t.build().bytes.size());
  for (uint32_t a = 1; a < size; ++a) {
    const Tcp c = Tcp(t).cut({a});
    const PacketView v = parse(c);
    REQUIRE(v.kind == Kind::kTcp);
    REQUIRE(v.tsecr == 22);
    REQUIRE(v.payload_len == 100);
  }
  for (uint32_t step : {1u, 2u, 3u, 13u, 33u, 53u}) {
    std::vector<uint32_t> cuts;
    for (uint32_t at = step; at < size; at += step) cuts.push_back(at);
    check_segment(parse(Tcp(t).cut(cuts)), t);
  }
}

TEST_CASE("Parse: lengths that contradict each other", "[parse]") {
  NoLeak guard;
  SECTION("IHL below 5") {
    for (unsigned ihl = 0; ihl < 5; ++ihl) {
      Frame f = segment(4);
      f.bytes[14] = static_cast<uint8_t>(0x40 | ihl);
      CHECK(parse(f).kind == Kind::kNonIp);
    }
  }
  SECTION("data offset below 5, or behind the packet's end") {
    const int version = GENERATE(4, 6);
    for (unsigned words : {0u, 1u, 2u, 3u, 4u, 15u}) {
      Tcp t = version == 4 ? tcp4() : tcp6();
      t.data(4).data_offset(words);
      const PacketView v = parse(t);
      CHECK(v.kind == Kind::kTcpOpaque);
      CHECK(v.why == Opaque::kLengths);
    }
  }
  SECTION("IP length beyond the frame") {
    const int version = GENERATE(4, 6);
    Frame f = segment(version);
    f.bytes.pop_back();
    const PacketView v = parse(f);
    CHECK(v.kind == Kind::kTcpOpaque);
    CHECK(v.why == Opaque::kCutShort);
  }
  SECTION("IP length below the headers") {
    for (unsigned len : {0u, 10u, 19u, 20u, 24u, 39u, 51u}) {
      Frame f = segment(4);
      f.bytes[16] = 0;
      f.bytes[17] = static_cast<uint8_t>(len);
      const PacketView v = parse(f);
      CHECK(v.kind != Kind::kTcp);
      CHECK(v.payload_len == 0);
    }
  }
  SECTION("IPv6 payload length 0 with TCP") {
    Frame f = segment(6);
    f.bytes[18] = f.bytes[19] = 0;
    CHECK(parse(f).kind != Kind::kTcp);
  }
  SECTION("frames that end inside the headers, at every byte") {
    const int version = GENERATE(4, 6);
    Frame whole = segment(version);
    for (size_t n = 1; n + 1 < whole.bytes.size(); ++n) {
      Frame f{Bytes(whole.bytes.begin(), whole.bytes.begin() + static_cast<long>(n))};
      REQUIRE(parse(f).kind != Kind::kTcp);
    }
  }
}

TEST_CASE("Parse: fragments are never TCP, and DF isn't a fragment", "[parse]") {
  NoLeak guard;
  Tcp t = segment(4);
  t.lower.df = true;
  CHECK(parse(t).kind == Kind::kTcp);
  t.lower.df = false;
  CHECK(parse(t).kind == Kind::kTcp);
  t.lower.mf = true;
  CHECK(parse(t).kind == Kind::kFragment);
  t.lower.mf = false;
  t.lower.frag_offset = 185;
  CHECK(parse(t).kind == Kind::kFragment);
  for (uint8_t more : {0, 1}) {
    Tcp s = segment(6);
    s.lower.extensions = {{44, {0, 0, 0, more, 0, 0, 0, 1}}};
    CHECK(parse(s).kind == Kind::kFragment);
    s.lower.extensions = {{60, Bytes(8)}, {44, {0, 0, 0, more, 0, 0, 0, 1}}};
    CHECK(parse(s).kind == Kind::kFragment);
  }
}

TEST_CASE("Parse: IPv4 options and IPv6 extension headers shift TCP, and are opaque", "[parse]") {
  NoLeak guard;
  for (size_t words = 1; words <= 10; ++words) {
    Tcp t = segment(4);
    t.lower.ip_options = Bytes(words * 4, 1);
    const PacketView v = parse(t);
    CHECK(v.kind == Kind::kTcpOpaque);
    CHECK(v.why == Opaque::kIpOptions);
    CHECK(v.l3_len == 20 + 4 * words);
    CHECK(v.seq == 1000);
    CHECK(v.payload_len == 100);
  }
  for (uint8_t type : {uint8_t{0}, uint8_t{60}, uint8_t{43}}) {
    Bytes ext(24);
    ext[1] = 2;
    Tcp t = segment(6);
    t.lower.extensions = {{type, ext}, {60, Bytes(8)}};
    const PacketView v = parse(t);
    CHECK(v.kind == Kind::kTcpOpaque);
    CHECK(v.l3_len == 40 + 24 + 8);
    CHECK(v.seq == 1000);
    CHECK(v.payload_len == 100);
    t.lower.extensions[0].second[1] = 255;  // longer than the packet
    CHECK(parse(t).kind != Kind::kTcp);
  }
  SECTION("AH, ESP and SCTP aren't looked into") {
    for (uint8_t proto : {50, 51, 132}) {
      const Tcp t = segment(6);
      CHECK(parse(Frame{ip_frame(t.lower, proto, t.l4())}).kind == Kind::kOtherIp);
      const Tcp s = segment(4);
      CHECK(parse(Frame{ip_frame(s.lower, proto, s.l4())}).kind == Kind::kOtherIp);
    }
  }
  SECTION("a chain of extension headers is bounded") {
    Tcp t = segment(6);
    for (int i = 0; i < 100; ++i) t.lower.extensions.push_back({60, Bytes(8)});
    CHECK(parse(t).kind == Kind::kOtherIp);
  }
}

TEST_CASE("Parse: a wrong IPv4 header checksum is never TCP to translate", "[parse]") {
  NoLeak guard;
  Frame f = segment(4);
  f.bytes[14 + 8]--;
  const PacketView v = parse(f);
  CHECK(v.kind == Kind::kTcpOpaque);
  CHECK(v.why == Opaque::kIpChecksum);
}

TEST_CASE("Parse: other protocols", "[parse]") {
  NoLeak guard;
  CHECK(parse(udp(Lower{}, 1, 2, 100)).kind == Kind::kUdp);
  CHECK(parse(too_big(Lower{}, 1400, Bytes(28))).kind == Kind::kIcmp);
  CHECK(parse(Frame{ip_frame(Lower{}, 47, Bytes(40))}).kind == Kind::kOtherIp);
  Frame arp{Bytes(60)};
  arp.bytes[12] = 8, arp.bytes[13] = 6;
  CHECK(parse(arp).kind == Kind::kNonIp);
  // Three tags are more than are read.
  Tcp t = segment(4);
  t.vlan(1).vlan(2).vlan(3);
  CHECK(parse(t).kind == Kind::kNonIp);
  // Announced IPv4, and nothing behind it.
  Frame bare{Bytes(14)};
  bare.bytes[12] = 8;
  CHECK(parse(bare).kind == Kind::kNonIp);
  Frame one{Bytes(1)};
  CHECK(parse(one).kind == Kind::kNonIp);
  CHECK(parse(one, Link::kRawIp).kind == Kind::kNonIp);
}

TEST_CASE("Parse: flags, signatures, multipath and odd options show", "[parse]") {
  NoLeak guard;
  Tcp t = tcp4();
  CHECK(parse(Tcp(t).flags(SYN | ECE | CWR | AE).mss(1460)).flags == (SYN | ECE | CWR | AE));
  CHECK(parse(Tcp(t).flags(SYN).mss(1460)).mss_off == 22);
  CHECK(parse(Tcp(t).option({19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})).signed_);
  CHECK(parse(Tcp(t).option({30, 4, 0, 0})).mptcp);
  CHECK(parse(Tcp(t).option({5, 0})).bad_options);
  const PacketView v = parse(Tcp(t).seq(0xffffffff).flags(SYN | FIN | ACK).data(10));
  CHECK(v.seq_end() == 11);
}

TEST_CASE("Parse: a datagram says the same by the short way and by the long one", "[parse]") {
  NoLeak guard;
  const int version = GENERATE(4, 6);
  const size_t payload = GENERATE(size_t{0}, size_t{1}, size_t{20}, size_t{60}, size_t{1400});
  Lower lower;
  lower.version = version;
  if (version == 6) lower.src = addr6(0x2001, 0xdb8, 1), lower.dst = addr6(0xfd00, 9, 2);
  const Frame whole = udp(lower, 1000, 2000, payload);
  const auto check = [&](Frame f) {
    const PacketView a = parse(f);
    f.cuts = {10, 30};  // in pieces: that is for the parser
    const PacketView b = parse(f);
    CHECK(a.kind == b.kind);
    CHECK(a.why == b.why);
    CHECK(a.version == b.version);
    CHECK(a.proto == b.proto);
    CHECK(a.l2_len == b.l2_len);
    CHECK(a.l3_len == b.l3_len);
    CHECK(a.ip_len == b.ip_len);
    return a.kind;
  };
  CHECK(check(whole) == Kind::kUdp);
  Frame padded = whole;
  padded.bytes.resize(padded.bytes.size() + 7, 0xee);
  CHECK(check(padded) == Kind::kUdp);
  // Each bit of the headers, changed on the way.
  const size_t headers = 14u + (version == 4 ? 20 : 40) + 8;
  for (size_t at = 12; at < headers; ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      Frame damaged = whole;
      damaged.bytes[at] = static_cast<uint8_t>(damaged.bytes[at] ^ 1u << bit);
      check(damaged);
      if (payload == 0) continue;
      damaged.bytes.pop_back();  // shorter than IP says
      check(damaged);
    }
  }
}
