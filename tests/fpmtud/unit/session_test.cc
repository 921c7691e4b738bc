// SPDX-License-Identifier: BSD-3-Clause
// The answer is right whatever the path does, and soon. Paths are simulated; both ends are real.
#include <catch2/catch.hpp>

#include "tests/fpmtud/unit/path.h"

using namespace test;

namespace {

bool on_ladder(uint16_t size) {
  for (const Rung& r : ladder())
    if (r.size == size) return true;
  return false;
}

uint16_t step_below(uint16_t size) {
  uint16_t best = 0;
  for (const Rung& r : ladder())
    if (r.size <= size) best = r.size;
  return best;
}

const SessionConfig kTo9000{.top = 9000};
const SessionConfig kExact{.top = 9000, .exact = true};

}  // namespace

TEST_CASE("session: every MTU at once: IPv4 within 7 bytes, the ladder's values to the byte") {
  for (uint16_t mtu = 600; mtu <= 9000; ++mtu) {
    Path path{.mtus = {9000, mtu, 9000}};
    const PathMtu r = measure(path, kTo9000);
    INFO("MTU " << mtu << ", found " << r.finding.mtu);
    REQUIRE(r.verdict == Verdict::kMeasured);
    REQUIRE(r.rounds == 1);
    REQUIRE(r.finding.mtu <= mtu);
    REQUIRE(r.finding.mtu > mtu - 8);
    REQUIRE((r.finding.limit == 0 || r.finding.limit > mtu));
    if (on_ladder(mtu)) REQUIRE(r.finding.mtu == mtu);
  }
}

TEST_CASE("session: every MTU without fragments: to the ladder's step in one round") {
  for (uint16_t mtu = 1280; mtu <= 9000; ++mtu) {
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      Path path{.family = family, .mtus = {9000, mtu, 9000}, .drop = Path::Drop::kAll};
      const PathMtu r = measure(path, kTo9000);
      INFO("MTU " << mtu << ", found " << r.finding.mtu);
      REQUIRE(r.rounds == 1);
      REQUIRE(r.finding.mtu == step_below(mtu));
      REQUIRE((r.finding.limit == 0 || r.finding.limit > mtu));
      const bool noted = (r.notes & kFragmentsFiltered) != 0;
      REQUIRE(noted == (family == Family::kIpv4 && mtu < 9000));
    }
  }
}

TEST_CASE("session: exact is exact, in one round more") {
  for (uint16_t mtu = 1280; mtu <= 9000; ++mtu) {
    for (const auto drop : {Path::Drop::kNone, Path::Drop::kAll}) {
      Path path{.mtus = {9000, mtu}, .drop = drop};
      const PathMtu r = measure(path, kExact);
      INFO("MTU " << mtu << ", found " << r.finding.mtu);
      REQUIRE(r.finding.mtu == mtu);
      REQUIRE(r.proven == mtu);
      REQUIRE(r.finding.exact());
      REQUIRE(r.rounds <= 2);
    }
  }
}

TEST_CASE("session: links that cut what is cut already") {
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    Path path{.mtus = {9000}};
    for (int k = 0; k < 5; ++k) path.mtus.push_back(static_cast<uint16_t>(1280 + random() % 7721));
    const PathMtu r = measure(path, kTo9000);
    REQUIRE(r.finding.mtu <= path.truth());
    REQUIRE(r.finding.mtu > path.truth() - 8);
    REQUIRE(r.rounds == 1);
  }
}

TEST_CASE("session: a box that reassembles doesn't raise the answer (P-01)") {
  for (uint16_t mtu = 1280; mtu < 9000; mtu = static_cast<uint16_t>(mtu + 7)) {
    for (const uint16_t after : {9000, 4000}) {
      if (after <= mtu) continue;
      Path path{.mtus = {9000, mtu, 9000, after}, .reassembler = 1};
      const PathMtu r = measure(path, kTo9000);
      INFO("MTU " << mtu << ", then " << after << ", found " << r.finding.mtu);
      REQUIRE(r.proven <= mtu);
      // Only within one step of the ladder could fragments of a later link pass for the path's.
      if (step_below(mtu) != step_below(after)) {
        REQUIRE(r.finding.mtu <= mtu);
        REQUIRE(r.finding.mtu == step_below(mtu));
        REQUIRE((r.notes & kReassembler) != 0);
      }
      Path again = path;
      REQUIRE(measure(again, kExact).finding.mtu == mtu);
    }
  }
}

TEST_CASE("session: loss costs time, not the answer") {
  for (const double loss : {0.01, 0.05, 0.2}) {
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      int low = 0, bound = 0;
      const int runs = 1500;
      for (int i = 0; i < runs; ++i) {
        const auto mtu = static_cast<uint16_t>(1280 + i * 7720 / runs);
        Path path{.family = family,
                  .mtus = {9000, mtu},
                  .loss = loss,
                  .random = std::mt19937(static_cast<unsigned>(i))};
        const PathMtu r = measure(path, kTo9000);
        INFO("loss " << loss << ", MTU " << mtu << ", found " << r.finding.mtu);
        REQUIRE(r.finding.mtu <= mtu);  // never above
        REQUIRE(r.verdict != Verdict::kSilent);
        if (r.verdict == Verdict::kLowerBound)
          ++bound;
        else if (r.finding.mtu < step_below(mtu))
          ++low;
      }
      INFO("loss " << loss << ": " << low << " low, " << bound << " bounds");
      CHECK(low <= 3);  // 2 in 1000 at most
      CHECK(bound <= runs / 20);
    }
  }
}

TEST_CASE("session: doubled and reordered packets change nothing") {
  for (uint16_t mtu = 1280; mtu <= 9000; mtu = static_cast<uint16_t>(mtu + 41)) {
    Path path{.mtus = {9000, mtu}, .duplicated = 0.3, .reversed = true};
    const PathMtu r = measure(path, kTo9000);
    CHECK(r.finding.mtu <= mtu);
    CHECK(r.finding.mtu > mtu - 8);
    CHECK(r.rounds == 1);
    CHECK((r.notes & kLoss) == 0);
  }
}

TEST_CASE("session: doubling doesn't hide loss") {
  // 6 in 10 lost, the rest doubled: as many arrive as were sent.
  for (unsigned i = 0; i < 300; ++i) {
    Path path{.family = Family::kIpv6,
              .mtus = {9000, 1500},
              .loss = 0.3,
              .duplicated = 1,
              .random = std::mt19937(i)};
    const PathMtu r = measure(path, kTo9000);
    CHECK(r.finding.mtu <= 1500);
    if (r.verdict == Verdict::kMeasured) CHECK(r.finding.mtu == 1500);
  }
}

TEST_CASE("session: silence says nothing about the path (P-02)") {
  Path path{.mtus = {9000, 1500}, .loss = 1};
  const PathMtu r = measure(path, kTo9000);
  CHECK(r.verdict == Verdict::kSilent);
  CHECK(r.finding.mtu == 0);
  // The full round once, then small ones.
  CHECK(r.rounds == 4);
  CHECK(r.took > std::chrono::seconds(4));
  CHECK(r.took < std::chrono::seconds(8));
}

TEST_CASE("session: a responder that awakes late is heard") {
  int n = 0;
  Path path{.mtus = {9000, 1500}};
  // All reports of the first round are lost, and of the first knock.
  const PathMtu r = measure(path, kTo9000, nullptr, [&](Report& x) {
    ++n;
    return x.head.round >= 2;
  });
  CHECK(n > 0);
  CHECK(r.finding.mtu == 1500);
}

TEST_CASE("session: a round trip longer than the first timeout is no loss") {
  Path path{.mtus = {9000, 1400}, .rtt = std::chrono::milliseconds(1700)};
  const PathMtu r = measure(path, kTo9000);
  CHECK(r.finding.mtu == 1400);
  CHECK(r.rtt > std::chrono::seconds(1));
}

TEST_CASE("session: a box that clears DF: what arrives in pieces hasn't passed") {
  Path path{.mtus = {9000, 1500}, .clears_df = true};
  const PathMtu r = measure(path, kTo9000);
  CHECK(r.finding.mtu == 1500);
  CHECK((r.notes & kDfCleared) != 0);
}

TEST_CASE("session: the first link alone limits") {
  for (const uint16_t mtu : {1280, 1377, 1500, 9000}) {
    Path path{.mtus = {mtu, 9000}};
    const PathMtu r = measure(path, kTo9000);
    CHECK(r.finding.mtu == mtu);
    CHECK(r.finding.limit == 0);
    CHECK(r.notes == 0);
  }
}

TEST_CASE("session: an ICMP error is tried, never believed (P-05)") {
  for (const uint16_t claimed : {1280, 1300, 1499, 1500, 8000}) {
    Session s({.top = 9000, .exact = true, .use_hints = true}, std::chrono::seconds(1));
    s.hint(claimed);
    CHECK_FALSE(s.done());
  }
  // Through the whole measurement, with a new claim at each report.
  uint16_t claim = 600;
  Path path{.mtus = {9000, 8811}};
  Responder far(generous());
  Time now = std::chrono::seconds(100);
  Session s({.top = 9000, .exact = true}, now);
  while (!s.done()) {
    if (!s.wants_to_send()) {
      now = s.deadline();
      s.expire(now);
      continue;
    }
    const Round round = s.round();
    const uint8_t number = s.round_number();
    s.round_sent(now);
    now += path.rtt;
    for (uint16_t seq = 0; seq < round.size() && !s.done(); ++seq) {
      s.hint(claim = static_cast<uint16_t>(claim + 13));
      const auto f = path.carry(round[seq].size, round[seq].fragmentable);
      if (!f) continue;
      auto bytes = probe_bytes(Family::kIpv4, round[seq].size,
                               round[seq].fragmentable ? kFragmentable : 0, number, seq);
      std::array<uint8_t, kReportBytes> out;
      std::optional<Request> request;
      REQUIRE(far.answer({.from = someone(1), .payload = bytes, .fragment = *f}, now, out,
                         request) > 0);
      Seen seen = seen_of(*parse_report(out, nullptr));
      seen.sent = static_cast<uint64_t>((now - path.rtt).count());
      s.seen(seen, now);
    }
  }
  CHECK(s.result().finding.mtu == 8811);
  CHECK((s.result().notes & kIcmpFalse) != 0);
}

TEST_CASE("session: an ICMP refusal counts only while nothing came back") {
  Session s(kTo9000, std::chrono::seconds(1));
  s.refuse(std::chrono::seconds(1));
  CHECK(s.result().verdict == Verdict::kRefused);
  CHECK(s.result().finding.mtu == 0);
}

TEST_CASE("session: reports that can't be are refused (P-05, P-08)") {
  const Time sent = std::chrono::seconds(10), now = sent + std::chrono::milliseconds(10);
  const auto fresh = [&] {
    Session s(kTo9000, sent);
    s.round_sent(sent);
    return s;
  };
  Seen good{.round = 0, .seq = 1, .size = 576, .sent = static_cast<uint64_t>(sent.count())};
  good.size = fresh().round()[1].size;
  good.tally = {.whole = 1, .largest_whole = good.size};
  REQUIRE(fresh().seen(good, now));
  const auto refused = [&](auto change) {
    Session s = fresh();
    Seen bad = good;
    change(bad);
    return !s.seen(bad, now);
  };
  CHECK(refused([](Seen& s) { s.round = 1; }));                   // not sent yet
  CHECK(refused([](Seen& s) { s.seq = 500; }));                   // no such probe
  CHECK(refused([](Seen& s) { s.size = 9000; }));                 // not its size
  CHECK(refused([](Seen& s) { s.fragment = s.size + 1; }));       // a piece larger than the whole
  CHECK(refused([](Seen& s) { s.tally.largest_whole = 9001; }));  // more than was sent
  CHECK(refused([](Seen& s) { s.tally.largest_fragment = 9001; }));
  CHECK(refused([](Seen& s) { s.tally.uncut = 60000; }));
  CHECK(refused([](Seen& s) { s.tally.cut_anyway = 60000; }));
  CHECK(refused([](Seen& s) { s.tally.whole = 500; }));
  CHECK(refused([](Seen& s) { s.tally.fragmentable = 3; }));
  CHECK(refused(
      [&](Seen& s) { s.sent = static_cast<uint64_t>(now.count()) + 1; }));  // from the future
  CHECK(refused([&](Seen& s) { s.sent = ~uint64_t{0}; }));
  // Too long ago: a replay.
  Session s = fresh();
  CHECK_FALSE(s.seen(good, sent + std::chrono::minutes(5)));
}

TEST_CASE("session: fragments below the floor are no result (P-08)") {
  for (const uint16_t fragment : {28, 68, 548, 575}) {
    Path path{.mtus = {9000, 1500}};
    const PathMtu r = measure(path, kTo9000, nullptr, [&](Report& x) {
      x.tally.largest_fragment = fragment;
      if (x.fragment != 0) x.fragment = fragment;
      return true;
    });
    CHECK(r.finding.mtu == 1500);
    CHECK(r.finding.how == How::kLadder);
  }
}

TEST_CASE("session: routers that cut into equal pieces don't lower the answer") {
  Path path{.mtus = {9000, 1500}};
  const PathMtu r = measure(path, kTo9000, nullptr, [&](Report& x) {
    if (x.tally.largest_fragment != 0) x.tally.largest_fragment = 1304;
    return true;
  });
  CHECK(r.finding.mtu == 1500);
}

TEST_CASE("session: a responder that limits is given time") {
  ResponderConfig config = generous();
  config.per_source = {100'000, 60'000};
  Responder far(config);
  Path path{.mtus = {9000, 1492}};
  const PathMtu r = measure(path, kTo9000, &far);
  CHECK(r.finding.mtu <= 1492);
  CHECK(r.finding.mtu >= 1484);
  CHECK((r.notes & kRateLimited) != 0);
}

TEST_CASE("session: a responder that draws its answers out ends it no later") {
  Session s(kTo9000, Time(0));
  Time now(0);
  while (!s.done() && now < std::chrono::minutes(10)) {
    if (s.wants_to_send()) s.round_sent(now = std::max(now, s.send_at()));
    const Round& round = s.round();
    size_t least = 0;
    for (size_t i = 0; i + 1 < round.size(); ++i)
      if (round[i].size < round[least].size) least = i;
    // Just before the round would end, one more, which pretends to have been long under way.
    const Time end = s.deadline();
    now = std::max(now, end - std::chrono::milliseconds(1));
    s.seen({.round = s.round_number(),
            .seq = static_cast<uint16_t>(least),
            .size = round[least].size,
            .flags = kLimited,
            .sent = static_cast<uint64_t>(std::max(now - std::chrono::seconds(20), Time(0)).count()),
            .tally = {}},
           now);
    if (s.deadline() > end) continue;
    now = end;
    s.expire(now);
  }
  CHECK(s.done());
  CHECK(now < std::chrono::seconds(160));
}

TEST_CASE("session: a report that is lost, or a displaced tally, doesn't lower the answer") {
  for (uint16_t mtu = 1280; mtu <= 9000; mtu = static_cast<uint16_t>(mtu + 61)) {
    Path path{.mtus = {9000, mtu}};
    // Each report speaks of its own probe alone, as after its round has been displaced.
    const PathMtu r = measure(path, kTo9000, nullptr, [](Report& x) {
      const Tally t = x.tally;
      const bool fragmentable = (x.head.flags & kFragmentable) != 0;
      x.tally = {};
      if (fragmentable)
        x.tally = {.fragmentable = 1, .largest_fragment = x.fragment, .uncut = t.uncut};
      else if (x.fragment == 0)
        x.tally = {.whole = 1, .largest_whole = x.size};
      return true;
    });
    CHECK(r.finding.mtu <= mtu);
    CHECK(r.finding.mtu > mtu - 8);
    CHECK(r.rounds == 1);
  }
}
