// SPDX-License-Identifier: BSD-3-Clause
// Fragmented UDP on its way to hosts that take caravans: whole where that can be, else just as it
// came.
#include "pxgw/dp/reassembler.h"

#include <algorithm>
#include <map>
#include <random>

#include "caravan/core/caravan.h"
#include "pxgw/dp/caravan_stage.h"
#include "tests/support/caravan_hosts.h"
#include "tests/support/checks.h"

using namespace test;
using namespace std::chrono_literals;

namespace {

constexpr auto kWait = pxgw::CaravanStage::kFragmentsWait;

pxgw::Policy policy(bool on = true) {
  pxgw::Policy p;
  p.caravans.mode = pxgw::Caravans::Mode::kOn;
  p.caravans.reassemble = on;
  p.caravans.tunnels = {6000};  // bundled, too, they would be harder to compare
  return p;
}

struct HostBed : CaravanHostsBed {
  explicit HostBed(const pxgw::Policy& p = policy(), uint16_t segs = 64) : CaravanHostsBed(p, segs) {}
};

Lower inbound(int version) {
  Lower l;
  l.version = version;
  l.df = false;
  l.src = version == 4 ? addr4(203, 0, 113, 1) : addr6(0x2001, 0xdb8, 1);
  l.dst = version == 4 ? addr4(10, 0, 0, 1) : addr6(0xfd09, 0, 2);
  return l;
}

// A datagram as its sender makes it, and the fragments that become of it.
struct Datagram {
  Lower lower;
  uint32_t id;
  Bytes l4;  // UDP header and payload
  Datagram(const Lower& l, uint32_t ident, size_t payload) : lower(l), id(ident) {
    Bytes data(payload);
    for (size_t i = 0; i < payload; ++i) data[i] = stream_byte(ident, static_cast<uint32_t>(i));
    lower.id = static_cast<uint16_t>(ident);
    const Frame f = udp(lower, static_cast<uint16_t>(5000 + ident % 7), 6000, data);
    l4.assign(f.bytes.end() - static_cast<ptrdiff_t>(payload + 8), f.bytes.end());
  }
  Frame piece(size_t at, size_t length, bool more, uint8_t tos = 0) const {
    Lower l = lower;
    l.tos = tos;
    if (l.version == 4) {
      l.frag_offset = static_cast<uint16_t>(at / 8);
      l.mf = more;
    } else {
      const auto where = static_cast<uint16_t>(at | (more ? 1 : 0));
      l.extensions.push_back(
          {44, Bytes{0, 0, static_cast<uint8_t>(where >> 8), static_cast<uint8_t>(where),
                     static_cast<uint8_t>(id >> 24), static_cast<uint8_t>(id >> 16),
                     static_cast<uint8_t>(id >> 8), static_cast<uint8_t>(id)}});
    }
    const auto from = l4.begin() + static_cast<ptrdiff_t>(at);
    Frame f;
    f.bytes = ip_frame(l, 17, Bytes(from, from + static_cast<ptrdiff_t>(length)));
    return f;
  }
  std::vector<Frame> pieces(size_t each = 1480) const {
    std::vector<Frame> r;
    for (size_t at = 0; at < l4.size(); at += each)
      r.push_back(piece(at, std::min(each, l4.size() - at), at + each < l4.size()));
    return r;
  }
};

// A caravan of one datagram so large.
Datagram caravan_of(const Lower& l, size_t payload) {
  Datagram d(l, 7, payload);
  const Frame f = udp(d.lower, 5000, 6000, payload);
  std::array<caravan::UdpPacket, 1> one;
  REQUIRE(caravan::parse_udp({f.bytes.data() + 14, f.bytes.size() - 14}, one[0]));
  Bytes packet(9000);
  packet.resize(caravan::bundle_packet(one, caravan::kDefaultPort, packet));
  d.l4.assign(packet.begin() + (l.version == 4 ? 20 : 40), packet.end());
  return d;
}

bool whole(const Decoded& d, const Datagram& from) {
  return d.ip_ok && d.checksum_ok && !d.mf && d.frag_offset == 0 && d.trailer == 0 &&
         d.proto == 17 && d.src == from.lower.src && d.dst == from.lower.dst && same(d.l4, from.l4);
}

std::vector<Bytes> frames_of(const std::vector<Decoded>& out) {
  std::vector<Bytes> r;
  for (const Decoded& d : out) r.push_back(d.frame);
  return r;
}
std::vector<Bytes> frames_of(const std::vector<Frame>& in) {
  std::vector<Bytes> r;
  for (const Frame& f : in) r.push_back(f.bytes);
  return r;
}

}  // namespace

TEST_CASE(
    "Reassembly: a fragmented datagram reaches a jumbo host whole, in whatever order its parts "
    "come",
    "[reassembly]") {
  const int version = GENERATE(4, 6);
  const auto payload = GENERATE(as<size_t>(), 1473, 3000, 8000, 8900);
  HostBed b;
  b.ask(inbound(version));
  std::mt19937 random(1);
  for (uint32_t id = 1; id <= 10; ++id) {
    const Datagram d(inbound(version), id, payload);
    auto parts = d.pieces(version == 4 ? 1480 : 1448);
    std::shuffle(parts.begin(), parts.end(), random);
    b.bed.in(parts);
    const auto out = b.bed.inside();
    INFO("IPv" << version << ", " << payload << " B" << text_of(out));
    REQUIRE(out.size() == 1);
    CHECK(whole(out[0], d));
    if (version == 4) CHECK(out[0].id == id);
  }
  CHECK(b.bed.count().reassembled_pkts == 10);
}

TEST_CASE("Reassembly: off by default, and never for hosts that haven't asked or take less",
          "[reassembly]") {
  const int version = GENERATE(4, 6);
  const int how = GENERATE(0, 1, 2);
  HostBed b(how == 0 ? policy(false) : policy());
  if (how != 1) b.ask(inbound(version), how == 2 ? 4000 : 9000);
  const auto parts = Datagram(inbound(version), 3, 8000).pieces(1440);
  b.bed.in(parts);
  b.bed.advance(kWait);
  CHECK(frames_of(b.bed.inside()) == frames_of(parts));
}

TEST_CASE("Reassembly: of a datagram that loses a part, the rest arrives as it came, in time",
          "[reassembly]") {
  const int version = GENERATE(4, 6);
  HostBed b;
  b.ask(inbound(version));
  for (size_t lost = 0; lost < 6; ++lost) {
    auto parts = Datagram(inbound(version), static_cast<uint32_t>(lost + 1), 8000).pieces(1440);
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(lost));
    b.bed.in(parts);
    CHECK(b.bed.inside().empty());
    b.bed.advance(kWait);
    CHECK(frames_of(b.bed.inside()) == frames_of(parts));
  }
  CHECK(b.bed.count().reassembly_expired == 6);
  CHECK(!b.bed.gateway().next_deadline());
}

TEST_CASE("Reassembly: overlapping, differing and odd parts are the host's to judge",
          "[reassembly]") {
  const int version = GENERATE(4, 6);
  HostBed b;
  b.ask(inbound(version));
  const Datagram d(inbound(version), 9, 4000);
  const auto p = [&](size_t at, size_t length, bool more, uint8_t tos = 0) {
    return d.piece(at, length, more, tos);
  };
  const std::vector<std::vector<Frame>> odd = {
      {p(0, 1440, true), p(1432, 1440, true), p(2872, 1136, false)},     // overlap
      {p(0, 1440, true), p(0, 1440, true), p(1440, 2568, false)},        // twice
      {p(0, 1440, true), p(1440, 1440, true, 3), p(2880, 1128, false)},  // a congestion mark on one
      {p(2880, 1128, false), p(2880 + 8, 1120, true), p(0, 1440, true)},  // behind the end
      {p(0, 1440, true), p(1440, 1441, true),
       p(2881 / 8 * 8, 1128, false)},                                  // no multiple of eight
      {p(1440, 1440, true), p(0, 1440, false), p(2880, 1128, false)},  // an end at the beginning
  };
  for (size_t i = 0; i < odd.size(); ++i) {
    INFO("case " << i);
    b.bed.in(odd[i]);
    b.bed.advance(kWait);
    auto out = frames_of(b.bed.inside()), in = frames_of(odd[i]);
    std::sort(out.begin(), out.end());
    std::sort(in.begin(), in.end());
    CHECK(out == in);
  }
  CHECK(b.bed.count().reassembled_pkts == 0);
}

// RFC 3168, section 5.3.
TEST_CASE("Reassembly: a congestion mark on one part stands on the whole", "[reassembly]") {
  const int version = GENERATE(4, 6);
  const uint8_t ect = GENERATE(uint8_t{1}, uint8_t{2});
  const auto tos = static_cast<uint8_t>(0x28 | ect);
  HostBed b;
  b.ask(inbound(version));
  const Datagram d(inbound(version), 9, 4000);
  const auto in_parts = [&](std::array<uint8_t, 3> t) {
    b.bed.in({d.piece(0, 1440, true, t[0]), d.piece(1440, 1440, true, t[1]), d.piece(2880, 1128, false, t[2])});
    b.bed.advance(kWait);
    return b.bed.inside();
  };
  for (size_t marked = 0; marked < 3; ++marked) {
    std::array<uint8_t, 3> t{tos, tos, tos};
    t[marked] |= 3;
    const auto out = in_parts(t);
    REQUIRE(out.size() == 1);
    CHECK(out[0].tos == (tos | 3));
    CHECK(out[0].ip_ok);
    CHECK(out[0].checksum_ok);
  }
  CHECK(in_parts({tos, tos, tos})[0].tos == tos);
  // Both kinds of ECT, or a mark beside what can't bear it: the host decides.
  const auto other = static_cast<uint8_t>(tos ^ 3);
  CHECK(in_parts({tos, other, tos}).size() == 3);
  CHECK(in_parts({0x28, 0x2b, 0x28}).size() == 3);
  CHECK(b.bed.count().reassembled_pkts == 4);
}

TEST_CASE("Reassembly: what the inside port can't take in one packet stays in parts",
          "[reassembly]") {
  HostBed b(policy(), 4);
  b.ask(inbound(4));
  const auto parts = Datagram(inbound(4), 5, 8000).pieces();
  b.bed.in(parts);
  CHECK(frames_of(b.bed.inside()) == frames_of(parts));
}

TEST_CASE(
    "Reassembly: endless first fragments cost no one else a datagram, and a bounded number of "
    "buffers",
    "[reassembly]") {
  HostBed b;
  b.ask(inbound(4));
  Lower stranger = inbound(4);
  stranger.src = addr4(198, 51, 100, 66);
  for (uint32_t id = 0; id < 20000; id += 20) {
    std::vector<Frame> flood;
    for (uint32_t i = 0; i < 20; ++i) flood.push_back(Datagram(stranger, id + i, 2000).pieces()[0]);
    b.bed.in(flood);
    const uint32_t held = b.bed.count().fragments_held;
    REQUIRE(held <= pxgw::CaravanStage::kFragmented * pxgw::Reassembler::kHeldPerPlace);
    b.bed.forget();
    if (id % 2000 != 0) continue;
    const Datagram d(inbound(4), 70000 + id, 8000);
    b.bed.in(d.pieces());
    const auto out = b.bed.inside();
    // Whole where there was room, in parts where not: the host makes it whole then.
    CHECK((out.size() == 1 ? whole(out[0], d) : frames_of(out) == frames_of(d.pieces())));
  }
  CHECK(b.bed.count().reassembly_full > 0);
}

TEST_CASE("Reassembly: datagrams behind a fragmented one of their flow don't overtake it",
          "[reassembly]") {
  HostBed b;
  b.ask(inbound(4));
  const Datagram d(inbound(4), 7, 5000);
  std::vector<Frame> burst = d.pieces();
  for (int i = 0; i < 4; ++i) burst.push_back(udp(inbound(4), 5000, 6000, 1200));
  b.bed.in(burst);
  b.bed.advance(1ms);
  const auto out = b.bed.inside();
  REQUIRE(out.size() >= 2);
  CHECK(whole(out[0], d));
}

TEST_CASE("Reassembly: a caravan from outside doesn't get in by coming in parts", "[reassembly]") {
  HostBed b;
  b.ask(inbound(4));
  b.bed.in(caravan_of(inbound(4), 5000).pieces());
  b.bed.advance(kWait);
  CHECK(b.bed.inside().empty());
  CHECK(b.bed.count().drop_caravan_foreign == 1);
}

TEST_CASE("Reassembly: nor where parts aren't made whole", "[reassembly]") {
  const int version = GENERATE(4, 6);
  HostBed b(policy(GENERATE(false, true)));
  b.ask(inbound(version));
  std::vector<Frame> parts = caravan_of(inbound(version), 4900).pieces(GENERATE(1440, 8)),
                     others = Datagram(inbound(version), 8, 5000).pieces(1440);
  parts.pop_back();  // so that it's never whole
  others.pop_back();
  b.bed.in(parts);
  b.bed.advance(kWait);
  const auto out = frames_of(b.bed.inside());
  CHECK(std::count(out.begin(), out.end(), parts[0].bytes) == 0);
  CHECK(b.bed.count().drop_caravan_foreign == 1);
  b.bed.forget();
  b.bed.in(others);
  b.bed.advance(kWait);
  CHECK(frames_of(b.bed.inside()) == frames_of(others));
  CHECK(b.bed.count().drop_caravan_foreign == 1);
}

TEST_CASE("Reassembly: what comes of a datagram that was given up waits no longer", "[reassembly]") {
  const int version = GENERATE(4, 6);
  HostBed b;
  b.ask(inbound(version));
  const auto parts = Datagram(inbound(version), 9, 8000).pieces(1440);
  b.bed.in({parts[0], parts[1], parts[1]});
  CHECK(b.bed.inside().size() == 3);
  for (size_t i = 2; i < parts.size(); ++i) {
    b.bed.forget();
    b.bed.in({parts[i]});
    CHECK(frames_of(b.bed.inside()) == frames_of(std::vector<Frame>{parts[i]}));
  }
  CHECK(b.bed.count().fragments_held == 0);
  // Nor for longer than that: the next with its identification is another.
  b.bed.advance(kWait);
  b.bed.forget();
  b.bed.in(parts);
  CHECK(b.bed.inside().size() == 1);
}

TEST_CASE("Reassembly: what a host takes less of meanwhile isn't sent to it whole", "[reassembly]") {
  HostBed b;
  b.ask(inbound(4));
  auto parts = Datagram(inbound(4), 9, 8000).pieces();
  std::swap(parts.front(), parts.back());
  b.bed.in({parts.begin(), parts.end() - 1});
  b.ask(inbound(4), 4000);
  b.bed.in({parts.back()});
  CHECK(frames_of(b.bed.inside()) == frames_of(parts));
}

TEST_CASE("Reassembly: switching it off lets go of what waits", "[reassembly]") {
  HostBed b;
  b.ask(inbound(4));
  const auto parts = Datagram(inbound(4), 7, 5000).pieces();
  b.bed.in({parts[0], parts[1]});
  b.bed.apply(policy(false));
  b.bed.in({parts[2], parts[3]});
  b.bed.advance(kWait);
  auto out = frames_of(b.bed.inside()), in = frames_of(parts);
  std::sort(out.begin(), out.end());
  std::sort(in.begin(), in.end());
  CHECK(out == in);
}

// Many datagrams at once, in parts of any size that interleave, some lost, some doubled.
TEST_CASE("Reassembly: whatever arrives leaves once, whole and right or as it came",
          "[reassembly]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto any = [&](size_t n) { return random() % n; };
    HostBed b;
    b.ask(inbound(4));
    b.ask(inbound(6));
    std::vector<Datagram> sent;
    std::vector<int> fate;  // 0: all parts once; 1: one lost; 2: one twice
    std::vector<size_t> parts_of;
    std::vector<Frame> parts;
    std::map<Bytes, int> left;  // frames that may come out as they are
    for (uint32_t i = 0; i < 40; ++i) {
      sent.emplace_back(inbound(any(2) == 0 ? 4 : 6), 1000 * seed + i, 600 + any(8000));
      fate.push_back(static_cast<int>(any(4) % 3));
      auto pieces = sent.back().pieces(std::max<size_t>(576, 8 * any(180)));
      parts_of.push_back(pieces.size());
      if (pieces.size() == 1) continue;
      if (fate.back() == 1)
        pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(any(pieces.size())));
      if (fate.back() == 2) pieces.push_back(pieces[any(pieces.size())]);
      for (const Frame& f : pieces) ++left[f.bytes];
      parts.insert(parts.end(), pieces.begin(), pieces.end());
    }
    // Near neighbours change places, as on the way.
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      std::swap(parts[i], parts[std::min(parts.size() - 1, i + any(60))]);
    b.bed.in(parts);
    b.bed.advance(2 * kWait);
    std::vector<int> came(sent.size());
    for (const Decoded& d : b.bed.inside()) {
      const auto raw = left.find(d.frame);
      if (raw != left.end() && raw->second > 0) {
        --raw->second;
        continue;
      }
      const auto is =
          std::find_if(sent.begin(), sent.end(), [&](const Datagram& s) { return whole(d, s); });
      REQUIRE(is != sent.end());
      ++came[static_cast<size_t>(is - sent.begin())];
    }
    for (size_t i = 0; i < sent.size(); ++i) {
      if (came[i] > 1) FAIL("datagram " << i << " came " << came[i] << " times");
      if (fate[i] == 1) CHECK(came[i] == 0);
      if (fate[i] == 0 && parts_of[i] > 1 && parts_of[i] <= pxgw::Reassembler::kMostFragments)
        CHECK(came[i] == 1);
    }
    CHECK(b.bed.count().reassembled_pkts > 0);
  }
}
