// SPDX-License-Identifier: BSD-3-Clause
// Probes for inside hosts, answered as their fragments pass; reports and errors about our own, taken; and all
// that isn't one of those, left alone.
#include "pxgw/dp/probe_stage.h"

#include "tests/support/checks.h"

using namespace test;
using namespace pxgw;
using namespace std::chrono_literals;

namespace {

constexpr uint16_t kPort = 7474;
const Addr kProber = addr4(203, 0, 113, 1), kHost = addr4(10, 0, 0, 1), kOther = addr4(10, 1, 0, 1);
const Addr kProber6 = addr6(0x2001, 0xdb8, 1), kHost6 = addr6(0xfd00, 1, 1);

Prefix prefix(uint8_t version, uint8_t bits, const Addr& a) {
  Prefix p{.version = version, .bits = bits};
  std::copy(a.begin(), a.end(), p.addr.begin());
  return p;
}

Policy answering() {
  Policy p;
  p.outside_mtu = 9000;
  p.assumed_mtu = 1500;
  p.probing.answer = {prefix(4, 16, kHost), prefix(6, 32, kHost6)};
  return p;
}

Lower lower(int version = 4) {
  Lower lo;
  lo.version = version;
  lo.src = version == 4 ? kProber : kProber6;
  lo.dst = version == 4 ? kHost : kHost6;
  return lo;
}

struct Asked {
  uint16_t size = 1500, seq = 0, top = 9000;
  bool fragmentable = false;
  uint8_t nonce = 7;
  uint8_t reverse = 0;
};

Bytes probe(const Asked& a, int version = 4, const fpmtud::Key* key = nullptr) {
  Bytes b(a.size - (version == 4 ? 28u : 48u));
  fpmtud::Probe p;
  p.head.flags = static_cast<uint8_t>((a.fragmentable ? fpmtud::kFragmentable : 0) | a.reverse);
  p.head.nonce.fill(a.nonce);
  p.seq = a.seq;
  p.size = a.size;
  p.top = a.top;
  p.sent = 99;
  fpmtud::encode(p, key, b);
  return b;
}

// The datagram cut as routers cut it, for links of `mtu`.
std::vector<Frame> cut(const Lower& lower, const Bytes& payload, uint16_t mtu, uint16_t id, uint16_t sport = 5000) {
  Lower lo = lower;
  lo.df = false;
  lo.id = id;
  const Decoded whole = decode(udp(lo, sport, kPort, payload).bytes);
  const size_t step = (mtu - 20u) / 8 * 8;
  std::vector<Frame> out;
  for (size_t at = 0; at < whole.l4.size(); at += step) {
    const size_t len = std::min(step, whole.l4.size() - at);
    lo.frag_offset = static_cast<uint16_t>(at / 8);
    lo.mf = at + len < whole.l4.size();
    const auto from = whole.l4.begin() + static_cast<long>(at);
    out.push_back({ip_frame(lo, 17, Bytes(from, from + static_cast<long>(len)))});
  }
  return out;
}

struct Gate {
  Mailbox box;
  Bed bed;
  explicit Gate(const Policy& policy = answering(), std::optional<fpmtud::Key> key = {}) : bed(policy) {
    bed.gateway().add_stage([this, key](const Stage::Context& c) {
      return std::make_unique<ProbeStage>(c, box, 2, key);
    });
  }
  // The reports that left outside.
  std::vector<fpmtud::Report> answers(const fpmtud::Key* key = nullptr) {
    std::vector<fpmtud::Report> r;
    for (const Decoded& d : bed.outside()) {
      INFO(d.text());
      CHECK(d.ip_ok);
      CHECK(d.checksum_ok);
      CHECK(d.trailer == 0);
      const auto report = fpmtud::parse_report(fpmtud::Bytes(d.l4).subspan(8), key);
      REQUIRE(report.has_value());
      r.push_back(*report);
    }
    return r;
  }
  bool passed(size_t n) { return bed.inside().size() == n && bed.outside().empty(); }
};

}  // namespace

TEST_CASE("answering: a whole probe gets a report in the host's name, and goes no further", "[probe]") {
  const int version = GENERATE(4, 6);
  const int tags = GENERATE(0, 2);
  Gate g;
  Lower lo = lower(version);
  for (int i = 0; i < tags; ++i) lo.tags.push_back({0x8100, static_cast<uint16_t>(5 + i)});
  Frame f = udp(lo, 5000, kPort, probe({.size = 9000}, version));
  if (GENERATE(false, true)) f.cuts = {60, 3000};
  g.bed.in({f});
  CHECK(g.bed.inside().empty());
  const auto out = g.bed.outside();
  REQUIRE(out.size() == 1);
  const Decoded& d = out[0];
  CHECK(d.src == lo.dst);
  CHECK(d.dst == lo.src);
  CHECK(d.src_mac == lo.dst_mac);
  CHECK(d.dst_mac == lo.src_mac);
  CHECK(d.tags == lo.tags);
  CHECK((d.df || version == 6));
  CHECK(d.l4[0] * 256 + d.l4[1] == kPort);
  CHECK(d.l4[2] * 256 + d.l4[3] == 5000);
  CHECK(d.checksum_ok);
  const auto r = fpmtud::parse_report(fpmtud::Bytes(d.l4).subspan(8), nullptr);
  REQUIRE(r.has_value());
  CHECK(r->size == 9000);
  CHECK(r->sent == 99);
  CHECK(r->tally.largest_whole == 9000);
  CHECK(r->fragment == 0);
}

TEST_CASE("answering: the largest fragment is the path MTU, known with the last of them", "[probe]") {
  const auto mtu = GENERATE(as<uint16_t>(), 576, 1400, 1500, 4352);
  Gate g;
  const Bytes p = probe({.size = 9000, .fragmentable = true});
  auto frames = cut(lower(), p, mtu, 77);
  SECTION("in order") {}
  SECTION("later ones in any order") { std::reverse(frames.begin() + 1, frames.end()); }
  for (size_t i = 0; i + 1 < frames.size(); ++i) {
    g.bed.in({frames[i]});
    CHECK(g.passed(0));
  }
  g.bed.in({frames.back()});
  CHECK(g.bed.inside().empty());
  const auto r = g.answers();
  REQUIRE(r.size() == 1);
  CHECK(r[0].fragment == (mtu - 20) / 8 * 8 + 20);
  CHECK(r[0].tally.largest_fragment == r[0].fragment);
  CHECK(r[0].tally.fragmentable == 1);
  CHECK(g.bed.count().probe_taken == frames.size());
}

TEST_CASE("answering: fragments of two probes side by side, and a round's common tally", "[probe]") {
  Gate g;
  const auto a = cut(lower(), probe({.seq = 0, .fragmentable = true}), 800, 1);
  const auto b = cut(lower(), probe({.seq = 1, .fragmentable = true}), 1000, 2);
  REQUIRE((a.size() == 2 && b.size() == 2));
  g.bed.in({a[0], b[0], b[1], a[1], udp(lower(), 5000, kPort, probe({.size = 700, .seq = 2}))});
  const auto r = g.answers();
  REQUIRE(r.size() == 3);
  CHECK(r[0].tally.largest_fragment == 996);
  CHECK(r[2].tally.fragmentable == 2);
  CHECK(r[2].tally.largest_whole == 700);
}

TEST_CASE("answering: what isn't a probe for a host that is answered for passes as it is", "[probe]") {
  Gate g;
  const auto check = [&](const std::vector<Frame>& frames) {
    g.bed.in(frames);
    const auto out = g.bed.inside();
    CHECK(g.bed.outside().empty());
    check_untouched(out, frames);
  };
  Lower lo = lower();
  SECTION("another host") {
    lo.dst = kOther;
    check({udp(lo, 5000, kPort, probe({}))});
    check(cut(lo, probe({.size = 3000, .fragmentable = true}), 1400, 9));
  }
  SECTION("another port") { check({udp(lo, 5000, kPort + 1, probe({}))}); }
  SECTION("no probe, whole or in fragments") {
    check({udp(lo, 5000, kPort, size_t{1200})});
    check(cut(lo, Bytes(3000, 1), 1400, 9));
  }
  SECTION("a report to a prober inside") {
    Bytes b(fpmtud::kReportBytes);
    fpmtud::encode(fpmtud::Report{}, nullptr, b);
    check({udp(lo, kPort, kPort, b)});
  }
  SECTION("a damaged one: its sender will hear nothing, as from the host") {
    Frame f = udp(lo, 5000, kPort, probe({}));
    f.bytes.back() ^= 1;
    check({f});
  }
  SECTION("a later fragment before its first one") {
    auto frames = cut(lo, probe({.size = 3000, .fragmentable = true}), 1400, 9);
    check({frames[1]});
  }
  SECTION("outbound") {
    Lower back = lower();
    std::swap(back.src, back.dst);
    back.dst = kHost;
    g.bed.out({udp(back, 5000, kPort, probe({.size = 1400}))});
    CHECK(g.bed.outside().size() == 1);
    CHECK(g.bed.inside().empty());
  }
  CHECK(g.bed.count().probe_reports == 0);
}

TEST_CASE("answering: fragments that contradict each other, or never come, are never answered", "[probe]") {
  Gate g;
  auto frames = cut(lower(), probe({.size = 9000, .fragmentable = true}), 1500, 9);
  SECTION("only the tail") {
    g.bed.in({frames.back()});
    CHECK(g.passed(1));
  }
  SECTION("one missing") {
    frames.erase(frames.begin() + 2);
    g.bed.in(frames);
    CHECK(g.passed(0));
  }
  SECTION("one twice") {
    frames.insert(frames.begin() + 2, frames[2]);
    g.bed.in(frames);
    CHECK(g.passed(0));
  }
  SECTION("two first ones") {
    frames.insert(frames.begin() + 1, frames[0]);
    g.bed.in(frames);
    CHECK(g.passed(0));
  }
  SECTION("overlap by eight bytes") {
    const auto other = cut(lower(), probe({.size = 9000, .fragmentable = true}), 1508, 9);
    g.bed.in({frames[0], other[1]});
    for (size_t i = 2; i < frames.size(); ++i) g.bed.in({frames[i]});
    CHECK(g.passed(0));
  }
  SECTION("an end beyond the datagram's") {
    const auto longer = cut(lower(), probe({.size = 9400, .top = 9400, .fragmentable = true}), 1500, 9);
    g.bed.in({frames.begin(), frames.end() - 1});
    g.bed.in({longer.back()});
    CHECK(g.passed(0));
  }
  SECTION("the last a second too late: then it is nobody's") {
    g.bed.in({frames.begin(), frames.end() - 1});
    g.bed.advance(1100ms);
    g.bed.in({frames.back()});
    CHECK(g.passed(1));
  }
  CHECK(g.bed.count().probe_reports == 0);
}

TEST_CASE("answering: endless first fragments displace each other and nothing else", "[probe]") {
  Gate g;
  const auto frames = cut(lower(), probe({.size = 3000, .fragmentable = true}), 1400, 9);
  for (uint32_t i = 0; i < 5000; ++i) {
    Lower lo = lower();
    lo.src = addr4(198, 51, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i));
    g.bed.in({cut(lo, probe({.size = 3000, .fragmentable = true}), 1400, static_cast<uint16_t>(i))[0]});
  }
  CHECK(g.passed(0));
  g.bed.in(frames);
  CHECK(g.answers().size() == 1);
}

TEST_CASE("answering: a source has an allowance, and others theirs", "[probe]") {
  Gate g;
  const Frame f = udp(lower(), 5000, kPort, probe({.size = 9000}));
  for (int i = 0; i < 3000; ++i) g.bed.in({f});
  CHECK(g.bed.inside().empty());
  const size_t answered = g.bed.outside().size();
  CHECK(answered >= 1800);  // 16 MB
  CHECK(answered < 1900);
  CHECK(g.bed.count().probe_limited == 3000 - answered);
  Lower lo = lower();
  lo.src = addr4(198, 51, 100, 7);
  g.bed.in({udp(lo, 5000, kPort, probe({}))});
  CHECK(g.answers().size() == 1);
}

TEST_CASE("answering: with a key, only what is signed, and signed", "[probe]") {
  const fpmtud::Key key(32, 'k'), wrong(32, 'w');
  Gate g(answering(), key);
  g.bed.in({udp(lower(), 5000, kPort, probe({})), udp(lower(), 5000, kPort, probe({}, 4, &wrong))});
  CHECK(g.passed(0));
  CHECK(g.bed.count().probe_limited == 2);
  g.bed.in({udp(lower(), 5000, kPort, probe({}, 4, &key))});
  CHECK(g.answers(&key).size() == 1);
  g.bed.in(cut(lower(), probe({.size = 3000, .fragmentable = true}, 4, &key), 1400, 3));
  CHECK(g.answers(&key).size() == 1);
}

TEST_CASE("answering: a reverse probe isn't answered, or answers would go round in circles", "[probe]") {
  Gate g;
  g.bed.in({udp(lower(), 5000, kPort, probe({.reverse = fpmtud::kReverse}))});
  CHECK(g.passed(0));
}

namespace {

struct Probing : Gate {
  Command expect;
  Probing() {
    expect = {.kind = Command::Kind::kExpect, .port = kPort, .from_port = 40000,
              .to = PathKey::of(4, kProber.data()), .from = PathKey::of(4, kOther.data())};
    expect.nonce.fill(9);
    bed.gateway().command(expect, bed.now());
  }
  static Bytes report(uint8_t nonce = 9) {
    Bytes b(fpmtud::kReportBytes);
    fpmtud::Report r;
    r.head.nonce.fill(nonce);
    r.size = 1500;
    fpmtud::encode(r, nullptr, b);
    return b;
  }
  static Lower back() {
    Lower lo = lower();
    lo.dst = kOther;
    return lo;
  }
};

}  // namespace

TEST_CASE("catching: the report about our own probe is taken, and nothing that only looks like it", "[probe]") {
  Probing g;
  const Frame right = udp(Probing::back(), kPort, 40000, Probing::report());
  std::vector<Frame> wrong = {udp(Probing::back(), kPort, 40001, Probing::report()),
                              udp(Probing::back(), kPort + 1, 40000, Probing::report()),
                              udp(Probing::back(), kPort, 40000, Probing::report(8)),
                              udp(Probing::back(), kPort, 40000, size_t{80}),
                              udp(Probing::back(), kPort, 40000, size_t{81})};
  Lower lo = Probing::back();
  lo.src = addr4(203, 0, 113, 2);
  wrong.push_back(udp(lo, kPort, 40000, Probing::report()));
  lo = Probing::back();
  lo.dst = addr4(10, 1, 0, 2);
  wrong.push_back(udp(lo, kPort, 40000, Probing::report()));
  wrong.push_back(right);
  wrong.back().bytes.back() ^= 1;
  g.bed.in(wrong);
  check_untouched(g.bed.inside(), wrong);
  Report r;
  CHECK(!g.box.take(r));
  g.bed.in({right});
  CHECK(g.passed(0));
  REQUIRE(g.box.take(r));
  CHECK(r.kind == Report::Kind::kAnswer);
  CHECK(r.pair == 2);
  CHECK(r.at == g.bed.now());
  CHECK(r.length == fpmtud::kReportBytes);
  CHECK(std::equal(r.bytes.begin(), r.bytes.end(), Probing::report().begin()));
  // Once the session is over, even its own report is none of ours.
  g.expect.kind = Command::Kind::kExpectEnd;
  g.bed.gateway().command(g.expect, g.bed.now());
  g.bed.in({right});
  CHECK(g.passed(1));
}

TEST_CASE("catching: errors about our own probes don't reach the host in whose name they went", "[probe]") {
  Probing g;
  Lower sent = Probing::back();
  std::swap(sent.src, sent.dst);
  Lower router = Probing::back();
  router.src = addr4(192, 0, 2, 9);
  const auto error = [&](uint8_t code, uint16_t sport, size_t quote_len) {
    Bytes quote = decode(udp(sent, sport, kPort, probe({.nonce = 9})).bytes).ip();
    quote.resize(quote_len);
    Frame f = too_big(router, 1400, quote);
    const size_t icmp = f.bytes.size() - 8 - quote_len;
    f.bytes[icmp + 1] = code;
    f.bytes[icmp + 2] = f.bytes[icmp + 3] = 0;
    const uint16_t sum = internet_checksum(word_sum(f.bytes.data() + icmp, 8 + quote_len));
    f.bytes[icmp + 2] = static_cast<uint8_t>(sum >> 8);
    f.bytes[icmp + 3] = static_cast<uint8_t>(sum);
    return f;
  };
  Report r;
  g.bed.in({error(4, 40000, 28)});
  CHECK(g.passed(0));
  CHECK(!g.box.take(r));
  g.bed.in({error(3, 40000, 28)});  // anyone could say so
  CHECK(g.passed(0));
  CHECK(!g.box.take(r));
  g.bed.in({error(3, 40000, 28 + 24)});
  CHECK(g.passed(0));
  REQUIRE(g.box.take(r));
  CHECK(r.kind == Report::Kind::kRefused);
  CHECK(g.bed.count().probe_errors == 3);
  g.bed.in({error(3, 40001, 28 + 24), error(4, 40001, 28)});
  CHECK(g.passed(2));
  CHECK(g.bed.count().ptb_passed == 1);
}

TEST_CASE("catching: a check that takes long is heard beside many short ones", "[probe]") {
  Probing g;
  Command other = g.expect;
  other.nonce[0] = 1;
  for (uint16_t i = 0; i < 200; ++i) {
    other.from_port = static_cast<uint16_t>(41000 + i);
    other.nonce[1] = static_cast<uint8_t>(i);
    other.kind = Command::Kind::kExpect;
    g.bed.gateway().command(other, g.bed.now());
    other.kind = Command::Kind::kExpectEnd;
    g.bed.gateway().command(other, g.bed.now());
  }
  g.bed.in({udp(Probing::back(), kPort, 40000, Probing::report())});
  CHECK(g.passed(0));
  CHECK(g.bed.count().probe_answers == 1);
}
