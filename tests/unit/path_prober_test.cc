// SPDX-License-Identifier: BSD-3-Clause
// The control side of probing: frames and commands out, reports in, over a path in simulated time.
#include "pxgw/ctl/path_prober.h"

#include <catch2/catch.hpp>
#include <map>

#include "fpmtud/core/responder.h"
#include "tests/support/decode.h"

using namespace test;
using namespace pxgw;
using namespace std::chrono_literals;
using pxio::Nanos;

namespace {

const Addr kInside = addr4(10, 0, 0, 1);

PathKey outside(uint8_t last) { return PathKey::of(4, addr4(203, 0, 113, last).data()); }

// Two workers, one pair, and hosts outside behind paths of a given MTU; those without one are silent.
struct Net {
  std::map<uint8_t, uint16_t> path;  // by the host's last byte
  std::function<uint16_t(uint16_t)> link;  // what one of several takes, by source port
  std::vector<std::pair<uint16_t, Command>> told;
  std::vector<Bytes> sent;
  std::multimap<Nanos, Report> coming;
  std::vector<Report> seen;  // all reports, for replays
  fpmtud::Responder responder{[] {
    fpmtud::ResponderConfig c;
    c.per_source = c.total = {1ull << 40, 1ull << 40};
    return c;
  }()};
  Nanos now = 1000s, wake{0};
  uint32_t room = UINT32_MAX;  // commands that the rings take
  bool answers = true;
  PathProber prober;

  explicit Net(const std::function<void(PathProber::Options&)>& change = {})
      : prober(options(change), {.count = 2,
                                 .tell = [this](uint16_t w, const Command& c) { return tell(w, c); },
                                 .transmit = [this](uint16_t, uint8_t, std::span<const uint8_t> f) {
                                   return transmit(f);
                                 }}) {}
  static PathProber::Options options(const std::function<void(PathProber::Options&)>& change) {
    PathProber::Options o{.probe = true, .top = {9000}, .assumed = {1500}};
    if (change) change(o);
    return o;
  }
  bool tell(uint16_t w, const Command& c) {
    if (room == 0) return false;
    --room;
    told.emplace_back(w, c);
    return true;
  }
  bool transmit(std::span<const uint8_t> f) {
    if (room == 0) return false;
    --room;
    const Bytes frame(f.begin(), f.end());
    sent.push_back(frame);
    const Decoded d = decode(frame);
    REQUIRE(d.ip_ok);
    REQUIRE(d.checksum_ok);
    REQUIRE(d.ip_len <= 9000);
    const auto it = path.find(d.dst[3]);
    if (it == path.end() || !answers) return true;
    uint16_t fragment = 0;
    fpmtud::Endpoint from{.port = static_cast<uint16_t>(d.l4[0] * 256 + d.l4[1])};
    const uint16_t mtu = link ? std::min(link(from.port), it->second) : it->second;
    if (mtu == 0) return true;
    if (d.ip_len > mtu) {
      if (d.df) return true;
      fragment = static_cast<uint16_t>((mtu - 20) / 8 * 8 + 20);
    }
    std::copy(d.src.begin(), d.src.end(), from.address.begin());
    Report r{.kind = Report::Kind::kAnswer, .pair = 0, .length = fpmtud::kReportBytes, .to = outside(d.dst[3]),
             .from = PathKey::of(4, d.src.data())};
    std::optional<fpmtud::Request> request;
    const std::span<const uint8_t> payload(d.l4.data() + 8, d.l4.size() - 8);
    REQUIRE(responder.answer({.from = from, .payload = payload, .fragment = fragment}, now, r.bytes, request) != 0);
    std::copy_n(r.bytes.begin() + 8, 16, r.nonce.begin());
    coming.emplace(now + 10ms, r);
    return true;
  }
  Report elephant(uint8_t last) const {
    Report r{.kind = Report::Kind::kElephant, .length = 14, .to = outside(last),
             .from = PathKey::of(4, kInside.data()), .at = now};
    for (uint8_t i = 0; i < 12; ++i) r.bytes[i] = static_cast<uint8_t>(i * 2);
    r.bytes[12] = 8;
    return r;
  }
  void run(Nanos until) {
    const Nanos end = now + until;
    while (now < end) {
      while (!coming.empty() && coming.begin()->first <= now) {
        Report r = coming.begin()->second;
        r.at = now;
        coming.erase(coming.begin());
        seen.push_back(r);
        prober.take(0, r, now);
      }
      const Nanos next = prober.advance(now);
      now = std::min(std::max(next, now + 100us), now + 1ms);
      if (!prober.busy() && coming.empty()) now = end;
    }
  }
  std::vector<Command> commands(Command::Kind kind, uint16_t worker = 0) const {
    std::vector<Command> r;
    for (const auto& [w, c] : told)
      if (w == worker && c.kind == kind) r.push_back(c);
    return r;
  }
  Json row(uint8_t last) const {
    const Json j = prober.show(outside(last), now);
    return j["destinations"].empty() ? Json::object() : j["destinations"][0];
  }
};

}  // namespace

TEST_CASE("prober: what it measures goes to every worker, and never above the truth", "[prober]") {
  const auto mtu = GENERATE(as<uint16_t>(), 1400, 1500, 3617, 4352, 8761, 9000);
  Net net;
  net.path[7] = mtu;
  net.prober.take(1, net.elephant(7), net.now);
  net.run(5s);
  for (uint16_t w = 0; w < 2; ++w) {
    const auto c = net.commands(Command::Kind::kConfirm, w);
    REQUIRE(c.size() == 1);
    CHECK(c[0].to == outside(7));
    CHECK(c[0].mtu <= mtu);
    CHECK(c[0].mtu + 8 > mtu);
    // Checked where there is something to lose.
    const size_t sessions = 1 + (c[0].mtu > 1500 ? PathProber::kChecks : 0);
    CHECK(net.commands(Command::Kind::kExpect, w).size() == sessions);
    CHECK(net.commands(Command::Kind::kExpectEnd, w).size() == sessions);
  }
  CHECK(net.row(7)["paths_differ"] == false);
  CHECK(net.row(7)["state"] == "confirmed");
  CHECK(net.row(7)["mtu"] <= mtu);
  // In the host's name, the way that its packets went.
  const Decoded d = decode(net.sent[0]);
  CHECK(d.src == kInside);
  CHECK(d.dst_mac == Mac{0, 2, 4, 6, 8, 10});
  CHECK(!d.df);
  CHECK(d.ip_len == 9000);
}

TEST_CASE("prober: where links of different MTU share the load, the least counts", "[prober]") {
  const auto least = GENERATE(as<uint16_t>(), 1400, 1500, 4352);
  for (int begin = 0; begin < 8; ++begin) {
    Net net;
    net.path[7] = 9000;
    // One port in two, of those that come; the first one on either link.
    std::map<uint16_t, uint16_t> links;
    net.link = [&](uint16_t port) {
      const auto n = static_cast<uint16_t>(links.size() + static_cast<size_t>(begin));
      return links.try_emplace(port, n % 2 == 0 ? 9000 : least).first->second;
    };
    net.prober.take(0, net.elephant(7), net.now);
    net.run(10s);
    const auto c = net.commands(Command::Kind::kConfirm);
    REQUIRE(c.size() == 1);  // never a larger one before
    CHECK(c[0].mtu <= least);
    CHECK(c[0].mtu + 8 > least);
    CHECK(net.row(7)["paths_differ"] == (begin % 2 == 0));
  }
}

TEST_CASE("prober: a link that is silent to some ports is never a small MTU", "[prober]") {
  Net net;
  net.path[7] = 9000;
  std::map<uint16_t, uint16_t> links;
  net.link = [&](uint16_t port) {
    return links.try_emplace(port, links.size() % 2 == 0 ? 9000 : 0).first->second;
  };
  net.prober.take(0, net.elephant(7), net.now);
  net.run(30s);
  REQUIRE(net.commands(Command::Kind::kConfirm).size() == 1);
  CHECK(net.commands(Command::Kind::kConfirm)[0].mtu == 9000);
}

TEST_CASE("prober: silence takes nothing away, and is told", "[prober]") {
  Net net;
  net.prober.take(0, net.elephant(7), net.now);
  net.run(20s);
  CHECK(net.commands(Command::Kind::kConfirm).empty());
  CHECK(net.commands(Command::Kind::kSilent, 1).size() == 1);
  CHECK(net.row(7)["state"] == "silent");
  CHECK(net.row(7)["mtu"].is_null());
}

TEST_CASE("prober: reports that are forged, replayed or too late change nothing", "[prober]") {
  Net net;
  net.path[7] = 1500;
  net.prober.take(0, net.elephant(7), net.now);
  net.run(2s);
  REQUIRE(net.row(7)["mtu"] == 1500);
  const auto old = net.seen;
  net.told.clear();
  // After the session.
  for (const Report& r : old) net.prober.take(0, r, net.now);
  CHECK(net.told.empty());
  // In another session: its nonce isn't theirs.
  net.answers = false;
  net.now += 10s;
  net.prober.take(0, net.elephant(7), net.now);
  net.run(100ms);
  for (Report r : old) {
    net.prober.take(0, r, net.now);
    const auto nonce = net.commands(Command::Kind::kExpect).at(0).nonce;
    std::copy(nonce.begin(), nonce.end(), r.nonce.begin());  // what the stage checks
    net.prober.take(0, r, net.now);
    // The right nonce in it, but of a round or a time that isn't: too large, from the future.
    std::copy(nonce.begin(), nonce.end(), r.bytes.begin() + 8);
    r.bytes[26] = 0xff;
    net.prober.take(0, r, net.now);
  }
  net.run(20s);
  CHECK(net.commands(Command::Kind::kConfirm).empty());
  CHECK(net.commands(Command::Kind::kSilent).size() == 1);
}

TEST_CASE("prober: with a key, unsigned reports count for nothing", "[prober]") {
  Net net([](PathProber::Options& o) { o.key = fpmtud::Key(32, 'k'); });
  net.path[7] = 9000;
  net.answers = false;
  net.prober.take(0, net.elephant(7), net.now);
  net.run(50ms);
  fpmtud::Report forged;
  forged.head.nonce = net.commands(Command::Kind::kExpect).at(0).nonce;
  forged.size = 9000;
  forged.sent = static_cast<uint64_t>(net.now.count()) - 1;
  forged.tally.largest_whole = 9000;
  Report r{.kind = Report::Kind::kAnswer, .length = fpmtud::kReportBytes, .to = outside(7),
           .from = PathKey::of(4, kInside.data()), .at = net.now, .nonce = forged.head.nonce};
  fpmtud::encode(forged, nullptr, r.bytes);
  net.prober.take(0, r, net.now);
  net.run(20s);
  CHECK(net.commands(Command::Kind::kConfirm).empty());
}

TEST_CASE("prober: a host that draws its answers out keeps no other from being measured", "[prober]") {
  Net net;
  net.path[7] = net.path[9] = 9000;
  net.answers = false;
  net.prober.take(0, net.elephant(7), net.now);
  net.run(50ms);
  REQUIRE(!net.sent.empty());
  Decoded least = decode(net.sent[0]);
  for (const Bytes& f : net.sent)
    if (const Decoded d = decode(f); d.df && d.ip_len < least.ip_len) least = d;
  net.answers = true;
  net.path[7] = static_cast<uint16_t>(least.ip_len);
  net.transmit(least.frame);  // one answer, again and again
  net.run(15ms);
  REQUIRE(net.seen.size() == 1);
  net.answers = false;
  for (int i = 0; i < 310; ++i) {
    net.run(100ms);
    Report r = net.seen[0];
    r.at = net.now;
    net.prober.take(0, r, net.now);
  }
  CHECK(net.row(7)["state"] != "probing");
  net.answers = true;
  net.prober.take(0, net.elephant(9), net.now);
  net.run(5s);
  CHECK(net.row(9)["mtu"] == 9000);
}

TEST_CASE("prober: checks of one destination go by different ports", "[prober]") {
  for (int i = 0; i < 200; ++i) {
    Net net;
    net.path[7] = 9000;
    net.prober.take(0, net.elephant(7), net.now);
    net.run(5s);
    std::map<uint16_t, int> ports;
    const auto told = net.commands(Command::Kind::kExpect);
    for (size_t k = 1; k < told.size(); ++k) ++ports[told[k].from_port];  // the checks are at once
    CHECK(ports.size() == PathProber::kChecks);
  }
}

TEST_CASE("prober: one session a destination, few at a time, so many a second", "[prober]") {
  Net net([](PathProber::Options& o) { o.per_second = 5; });
  for (int i = 0; i < 3; ++i) net.prober.take(static_cast<uint16_t>(i % 2), net.elephant(7), net.now);
  for (uint8_t last = 100; last < 200; ++last) net.prober.take(0, net.elephant(last), net.now);
  net.prober.advance(net.now);
  CHECK(net.commands(Command::Kind::kExpect).size() <= 5);
  net.run(900ms);
  CHECK(net.commands(Command::Kind::kExpect).size() <= PathProber::kMaxFlights);
  net.run(10min);
  CHECK(net.commands(Command::Kind::kExpect).size() == 101);
  CHECK(net.commands(Command::Kind::kSilent).size() == 101);
}

TEST_CASE("prober: a worker that asks just after the answer gets it, without another probe", "[prober]") {
  Net net;
  net.path[7] = 9000;
  net.prober.take(0, net.elephant(7), net.now);
  net.run(2s - 1ms);
  const size_t sent = net.sent.size();
  net.now = 1000s + 500ms;
  net.prober.take(1, net.elephant(7), net.now);
  CHECK(net.commands(Command::Kind::kConfirm, 0).size() == 1);
  CHECK(net.commands(Command::Kind::kConfirm, 1).size() == 2);
  CHECK(net.sent.size() == sent);
}

TEST_CASE("prober: what one worker lowers the others lower, and it is measured anew when asked", "[prober]") {
  Net net;
  net.path[7] = 9000;
  net.prober.take(0, net.elephant(7), net.now);
  net.run(2s);
  net.path[7] = 1500;
  net.told.clear();
  net.prober.take(0, {.kind = Report::Kind::kLowered, .mtu = 1400, .to = outside(7)}, net.now);
  CHECK(net.commands(Command::Kind::kLower, 0).empty());
  REQUIRE(net.commands(Command::Kind::kLower, 1).size() == 1);
  CHECK(net.commands(Command::Kind::kLower, 1)[0].mtu == 1400);
  CHECK(net.row(7)["state"] == "lowered");
  net.prober.take(0, net.elephant(7), net.now);
  net.run(2s);
  CHECK(net.row(7)["state"] == "confirmed");
  CHECK(net.row(7)["mtu"] == 1500);
}

TEST_CASE("prober: rings that are full for a while only delay it", "[prober]") {
  Net net;
  net.path[7] = 9000;
  net.room = 0;
  net.prober.take(0, net.elephant(7), net.now);
  net.run(50ms);
  CHECK(net.sent.empty());
  net.room = 5;
  net.run(5ms);
  CHECK(net.sent.size() == 3);
  net.room = UINT32_MAX;
  net.run(5s);
  CHECK(net.row(7)["mtu"] == 9000);
}

TEST_CASE("prober: by request, known ways at once, unknown ones with the next packet", "[prober]") {
  Net net;
  net.path[7] = 9000;
  net.prober.probe(outside(7), net.now);
  CHECK(net.row(7)["state"] == "awaited");
  REQUIRE(net.commands(Command::Kind::kWatchFor, 1).size() == 1);
  Report r = net.elephant(7);
  r.kind = Report::Kind::kWatched;
  net.prober.take(1, r, net.now);
  net.run(2s);
  CHECK(net.row(7)["mtu"] == 9000);
  net.path[7] = 1500;
  net.prober.probe(outside(7), net.now);
  CHECK(net.row(7)["state"] == "queued");
  net.run(2s);
  CHECK(net.row(7)["mtu"] == 1500);
  net.prober.flush();
  CHECK(net.row(7).empty());
  CHECK(net.commands(Command::Kind::kForget, 1).size() == 1);
  CHECK_THROWS_WITH(Net([](PathProber::Options& o) { o.probe = false; }).prober.probe(outside(7), 0s),
                    Catch::Contains("pmtu: {probe: on}"));
}

TEST_CASE("prober: strangers' destinations never exceed the table", "[prober]") {
  Net net;
  for (uint32_t i = 0; i < 3 * PathProber::kMaxDestinations; ++i) {
    net.now += 1ms;
    const PathKey to = PathKey::of(4, addr4(198, static_cast<uint8_t>(i >> 16), static_cast<uint8_t>(i >> 8),
                                            static_cast<uint8_t>(i)).data());
    net.prober.take(0, {.kind = Report::Kind::kLowered, .mtu = 1400, .to = to}, net.now);
  }
  CHECK(net.prober.list(net.now)["destinations"].size() == PathProber::kMaxDestinations);
}
