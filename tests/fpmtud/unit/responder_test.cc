// SPDX-License-Identifier: BSD-3-Clause
// The responder harms nobody and stays within its memory, whatever it is sent.
#include <catch2/catch.hpp>

#include "tests/fpmtud/unit/path.h"

using namespace test;

namespace {

constexpr Time kStart = std::chrono::seconds(50);

// Sends one datagram; the report's length.
struct Far {
  explicit Far(const ResponderConfig& c = generous()) : responder(c) {}
  size_t send(const std::vector<uint8_t>& bytes, const Endpoint& from = someone(1),
              Time now = kStart, uint16_t fragment = 0) {
    return responder.answer({.from = from, .payload = bytes, .fragment = fragment, .ttl = 60}, now,
                            out, request);
  }
  Report report(const Key* key = nullptr) { return *parse_report(out, key); }
  Responder responder;
  std::array<uint8_t, kReportBytes> out{};
  std::optional<Request> request;
};

std::vector<uint8_t> request_bytes(uint64_t cookie, uint8_t nonce = 7,
                                   RoundSpec spec = {.top = 9000}) {
  std::vector<uint8_t> bytes(kRequestBytes);
  Request r;
  r.head.nonce.fill(nonce);
  r.spec = spec;
  r.cookie = cookie;
  encode(r, nullptr, bytes);
  return bytes;
}

}  // namespace

TEST_CASE("responder: a report is never larger than what asked for it") {
  for (const Family f : {Family::kIpv4, Family::kIpv6}) {
    Far far;
    const auto smallest = probe_bytes(f, floor_of(f));
    CHECK(far.send(smallest, someone(1, f)) == kReportBytes);
    CHECK(kReportBytes <= smallest.size());
    for (uint16_t size = kProbeBytes + 48; size < floor_of(f); ++size)
      CHECK(far.send(probe_bytes(f, size), someone(1, f)) == 0);
  }
}

TEST_CASE("responder: what it reports is what arrived, each probe once") {
  Far far;
  far.send(probe_bytes(Family::kIpv4, 9000, kFragmentable, 0, 0), someone(1), kStart, 1396);
  CHECK(far.report().fragment == 1396);
  CHECK(far.report().ttl == 60);
  far.send(probe_bytes(Family::kIpv4, 1400, 0, 0, 1));
  far.send(probe_bytes(Family::kIpv4, 1280, 0, 0, 2));
  far.send(probe_bytes(Family::kIpv4, 1500, 0, 0, 3), someone(1), kStart, 1396);
  far.send(probe_bytes(Family::kIpv4, 1280, 0, 0, 2));  // doubled
  const Tally t = far.report().tally;
  CHECK(t.whole == 2);
  CHECK(t.largest_whole == 1400);
  CHECK(t.fragmentable == 1);
  CHECK(t.largest_fragment == 1396);
  CHECK(t.cut_anyway == 1500);
  // Another round, another source, another nonce: nothing in common.
  far.send(probe_bytes(Family::kIpv4, 1280, 0, 1, 2));
  CHECK(far.report().tally.whole == 1);
  far.send(probe_bytes(Family::kIpv4, 1280, 0, 0, 4), someone(2));
  CHECK(far.report().tally.whole == 1);
  far.send(probe_bytes(Family::kIpv4, 1280, 0, 0, 4, nullptr, 8));
  CHECK(far.report().tally.whole == 1);
}

TEST_CASE("responder: a round that has gone quiet for a second is forgotten") {
  Far far;
  far.send(probe_bytes(Family::kIpv4, 1500, 0, 0, 1));
  far.send(probe_bytes(Family::kIpv4, 1280, 0, 0, 2), someone(1),
           kStart + std::chrono::milliseconds(1100));
  CHECK(far.report().tally.largest_whole == 1280);
}

TEST_CASE("responder: pieces larger than the whole aren't believed") {
  Far far;
  far.send(probe_bytes(Family::kIpv4, 1500, kFragmentable, 0, 0), someone(1), kStart, 1600);
  CHECK(far.report().tally == Tally{});
}

TEST_CASE("responder: other people's rounds don't take an answer away (P-12)") {
  Far far;
  far.send(probe_bytes(Family::kIpv4, 1500, 0, 0, 0, nullptr, 99));
  // A million rounds, each new.
  std::vector<uint8_t> bytes = probe_bytes(Family::kIpv4, 576);
  for (uint32_t i = 0; i < 1'000'000; ++i) {
    for (int k = 0; k < 4; ++k)
      bytes[8 + static_cast<size_t>(k)] = static_cast<uint8_t>(i >> (8 * k));
    far.send(bytes, someone(2));
  }
  CHECK(far.send(probe_bytes(Family::kIpv4, 1400, 0, 0, 1, nullptr, 99)) == kReportBytes);
  CHECK(far.report().size == 1400);
  CHECK(far.report().tally.largest_whole >= 1400);
}

TEST_CASE("responder: a source has an allowance, and it comes back") {
  ResponderConfig c = generous();
  c.per_source = {10'000, 20'000};
  Far far(c);
  const auto probe = probe_bytes(Family::kIpv4, 1000);
  int answered = 0;
  for (int i = 0; i < 100; ++i) answered += far.send(probe) > 0 ? 1 : 0;
  CHECK(answered == 20);
  CHECK((far.report().head.flags & kLimited) != 0);  // the last answer says that it is the last
  CHECK(far.send(probe, someone(2)) > 0);            // others have their own
  CHECK(far.send(probe, someone(1), kStart + std::chrono::milliseconds(50)) == 0);
  CHECK(far.send(probe, someone(1), kStart + std::chrono::milliseconds(150)) > 0);
  CHECK(far.responder.counters().drop_limit == 81);
}

TEST_CASE("responder: a /64 is one source") {
  ResponderConfig c = generous();
  c.per_source = {1, 20'000};
  Far far(c);
  const auto probe = probe_bytes(Family::kIpv6, 2000);
  int answered = 0;
  for (uint8_t i = 0; i < 200; ++i) {
    Endpoint e = someone(1, Family::kIpv6);
    e.address[15] = i;
    answered += far.send(probe, e) > 0 ? 1 : 0;
  }
  CHECK(answered == 10);
}

TEST_CASE("responder: all together have a limit") {
  ResponderConfig c = generous();
  c.total = {1, 100'000};
  Far far(c);
  const auto probe = probe_bytes(Family::kIpv4, 1000);
  int answered = 0;
  for (int i = 0; i < 1000; ++i) {
    Endpoint e = someone(static_cast<uint8_t>(i));
    e.address[1] = static_cast<uint8_t>(i >> 8);
    answered += far.send(probe, e) > 0 ? 1 : 0;
  }
  CHECK(answered == 100);
}

TEST_CASE("responder: who can't sign can't use up a source's allowance") {
  ResponderConfig c = generous();
  c.per_source = {1, 3000};
  const Key key(32, 5), wrong(32, 6);
  c.key = key;
  Far far(c);
  for (int i = 0; i < 100; ++i) {
    CHECK(far.send(probe_bytes(Family::kIpv4, 1000)) == 0);
    CHECK(far.send(probe_bytes(Family::kIpv4, 1000, kSigned, 0, 0, &wrong)) == 0);
  }
  CHECK(far.send(probe_bytes(Family::kIpv4, 1000, 0, 0, 0, &key)) == kReportBytes);
  CHECK(parse_report(far.out, &key));
  CHECK_FALSE(parse_report(far.out, &wrong));
}

TEST_CASE("responder: rounds are sent only to who has shown that it gets what is sent there") {
  Far far;
  far.send(probe_bytes(Family::kIpv4, 1400));
  CHECK(far.report().cookie == 0);  // not asked for
  far.send(probe_bytes(Family::kIpv4, 1400, kWantCookie));
  const uint64_t cookie = far.report().cookie;
  REQUIRE(cookie != 0);
  const auto sends = [&](const std::vector<uint8_t>& bytes, const Endpoint& from,
                         Time now = kStart) {
    CHECK(far.send(bytes, from, now) == 0);  // never answered by a report
    return far.request.has_value();
  };
  CHECK(sends(request_bytes(cookie), someone(1)));
  CHECK_FALSE(sends(request_bytes(0), someone(1)));
  CHECK_FALSE(sends(request_bytes(cookie ^ 1), someone(1)));
  CHECK_FALSE(sends(request_bytes(cookie), someone(2)));     // elsewhere
  CHECK_FALSE(sends(request_bytes(cookie, 8), someone(1)));  // another session
  Endpoint port = someone(1);
  ++port.port;
  CHECK_FALSE(sends(request_bytes(cookie), port));
  CHECK(sends(request_bytes(cookie), someone(1), kStart + std::chrono::seconds(20)));
  CHECK_FALSE(
      sends(request_bytes(cookie), someone(1), kStart + std::chrono::seconds(70)));  // too late
  CHECK(far.responder.counters().drop_cookie == 6);
}

TEST_CASE("responder: rounds that it sends count against the allowance of who asks") {
  ResponderConfig c = generous();
  c.per_source = {1, 700'000};
  Far far(c);
  far.send(probe_bytes(Family::kIpv4, 1400, kWantCookie));
  const uint64_t cookie = far.report().cookie;
  int rounds = 0;
  for (int i = 0; i < 100; ++i) {
    far.send(request_bytes(cookie));
    rounds += far.request ? 1 : 0;
  }
  CHECK(rounds >= 1);
  CHECK(rounds <= 4);
}

TEST_CASE("responder: --no-reverse sends nothing") {
  ResponderConfig c = generous();
  c.reverse = false;
  Far far(c);
  far.send(probe_bytes(Family::kIpv4, 1400, kWantCookie));
  far.send(request_bytes(far.report().cookie));
  CHECK_FALSE(far.request);
}

TEST_CASE(
    "responder: reports, reverse probes and garbage aren't answered: nothing goes round in "
    "circles") {
  Far far;
  far.send(probe_bytes(Family::kIpv4, 1400));
  const std::vector<uint8_t> report(far.out.begin(), far.out.end());
  CHECK(far.send(report) == 0);
  CHECK(far.send(probe_bytes(Family::kIpv4, 1400, kReverse)) == 0);
  CHECK(far.send({}) == 0);
  CHECK(far.send(std::vector<uint8_t>(1400, 'F')) == 0);
  CHECK(far.send(probe_bytes(Family::kIpv4, 1400, 0, 0, kMaxProbes)) == 0);
}
