// SPDX-License-Identifier: BSD-3-Clause
// docs/fpmtud-protocol.md is the standard: its test vectors and tables are checked here.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

#include "tests/fpmtud/unit/path.h"

using namespace test;

namespace {

std::string protocol() {
  std::ifstream in("docs/fpmtud-protocol.md");
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The blocks of hexadecimal digits that follow `### Vector NAME`; what stands behind a # is a
// remark.
std::map<std::string, std::vector<uint8_t>> vectors() {
  std::map<std::string, std::vector<uint8_t>> all;
  const std::string text = protocol();
  const std::regex heading("### Vector ([a-z ]+)\\n");
  for (auto m = std::sregex_iterator(text.begin(), text.end(), heading);
       m != std::sregex_iterator(); ++m) {
    const size_t begin = text.find("```\n", static_cast<size_t>(m->position())) + 4;
    std::string block = text.substr(begin, text.find("```", begin) - begin);
    block = std::regex_replace(block, std::regex("#[^\\n]*"), "");
    std::string digits;
    for (const char c : block)
      if (std::isxdigit(static_cast<unsigned char>(c)) != 0) digits += c;
    std::vector<uint8_t>& bytes = all[(*m)[1]];
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
      bytes.push_back(static_cast<uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return all;
}

Nonce counting() {
  Nonce n;
  for (size_t i = 0; i < n.size(); ++i) n[i] = static_cast<uint8_t>(i);
  return n;
}

const std::string kKeyText = "0123456789abcdef0123456789abcdef";
const Key kKey(kKeyText.begin(), kKeyText.end());

Probe vector_probe() {
  Probe p;
  p.head = {.flags = kFragmentable | kWantCookie, .round = 0, .nonce = counting()};
  p.seq = 0;
  p.size = p.top = 9000;
  p.sent = 0x0102030405060708;
  return p;
}

Report vector_report() {
  Report r;
  r.head = {.flags = kLast, .round = 2, .nonce = counting()};
  r.seq = 0x51;
  r.size = 576;
  r.ttl = 61;
  r.sent = 0x0102030405060708;
  r.tally = {.whole = 0x46,
             .largest_whole = 1400,
             .fragmentable = 2,
             .largest_fragment = 1396,
             .uncut = 0,
             .cut_anyway = 1500};
  r.cookie = 0x1112131415161718;
  return r;
}

Request vector_request() {
  Request r;
  r.head = {.round = 1, .nonce = counting()};
  r.spec = {.kind = RoundKind::kEverySize, .low = 1401, .high = 1409, .top = 9000};
  r.sent = 0x0102030405060708;
  r.cookie = 0x1112131415161718;
  return r;
}

template <class T>
std::vector<uint8_t> encoded(const T& m, size_t bytes, const Key* key) {
  std::vector<uint8_t> out(bytes, 0xee);
  encode(m, key, out);
  return out;
}

}  // namespace

TEST_CASE("wire: the test vectors of the protocol's description") {
  const auto v = vectors();
  REQUIRE(v.size() == 6);
  auto front = encoded(vector_probe(), 9000 - 28, nullptr);
  CHECK(std::all_of(front.begin() + kProbeBytes, front.end(), [](uint8_t b) { return b == 0; }));
  front.resize(kProbeBytes);
  CHECK(front == v.at("probe"));
  front = encoded(vector_probe(), 9000 - 28, &kKey);
  front.resize(kProbeBytes);
  CHECK(front == v.at("signed probe"));
  CHECK(encoded(vector_report(), kReportBytes, nullptr) == v.at("report"));
  CHECK(encoded(vector_report(), kReportBytes, &kKey) == v.at("signed report"));
  CHECK(encoded(vector_request(), kRequestBytes, nullptr) == v.at("request"));
  CHECK(encoded(vector_request(), kRequestBytes, &kKey) == v.at("signed request"));

  const auto report = parse_report(v.at("signed report"), &kKey);
  REQUIRE(report);
  CHECK(report->tally == vector_report().tally);
  CHECK(report->cookie == vector_report().cookie);
  CHECK(report->ttl == 61);
  CHECK(report->seq == 0x51);
  const auto request = parse_request(v.at("request"), nullptr);
  REQUIRE(request);
  CHECK(request->spec.high == 1409);
  auto whole = v.at("probe");
  whole.resize(9000 - 28);
  const auto probe = parse_probe(whole, Family::kIpv4, nullptr);
  REQUIRE(probe);
  CHECK(probe->size == 9000);
  CHECK(probe->head.nonce == counting());
}

TEST_CASE("wire: a bit changed anywhere in a signed header is found") {
  const auto report = encoded(vector_report(), kReportBytes, &kKey);
  const auto request = encoded(vector_request(), kRequestBytes, &kKey);
  const auto probe = encoded(vector_probe(), 9000 - 28, &kKey);
  for (size_t bit = 0; bit < kReportBytes * 8; ++bit) {
    auto changed = report;
    changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    CHECK_FALSE(parse_report(changed, &kKey));
  }
  for (size_t bit = 0; bit < kRequestBytes * 8; ++bit) {
    auto changed = request;
    changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    CHECK_FALSE(parse_request(changed, &kKey));
  }
  for (size_t bit = 0; bit < kProbeBytes * 8; ++bit) {
    auto changed = probe;
    changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    CHECK_FALSE(parse_probe(changed, Family::kIpv4, &kKey));
  }
}

TEST_CASE("wire: signed and unsigned messages don't pass for each other, nor do types") {
  Key other = kKey;
  other[0] ^= 1;
  const auto with = encoded(vector_report(), kReportBytes, &kKey);
  const auto without = encoded(vector_report(), kReportBytes, nullptr);
  CHECK(parse_report(with, &kKey));
  CHECK(parse_report(without, nullptr));
  CHECK_FALSE(parse_report(with, nullptr));
  CHECK_FALSE(parse_report(without, &kKey));
  CHECK_FALSE(parse_report(with, &other));
  CHECK_FALSE(parse_probe(with, Family::kIpv4, &kKey));
  CHECK_FALSE(parse_request(with, &kKey));
  const auto probe = encoded(vector_probe(), 9000 - 28, nullptr);
  CHECK_FALSE(parse_report(probe, nullptr));
}

TEST_CASE("wire: a probe's size is that of its datagram, and not below the floor") {
  for (const Family f : {Family::kIpv4, Family::kIpv6}) {
    const uint16_t floor = floor_of(f);
    auto bytes = probe_bytes(f, floor);
    CHECK(parse_probe(bytes, f, nullptr));
    bytes.push_back(0);
    CHECK_FALSE(parse_probe(bytes, f, nullptr));  // longer than it says
    bytes.resize(bytes.size() - 2);
    CHECK_FALSE(parse_probe(bytes, f, nullptr));  // shorter
    bytes = probe_bytes(f, static_cast<uint16_t>(floor - 1));
    CHECK_FALSE(parse_probe(bytes, f, nullptr));
    for (size_t n = 0; n < kProbeBytes; ++n)
      CHECK_FALSE(parse_probe(std::span(bytes).first(n), f, nullptr));
  }
}

TEST_CASE("ladder: the description lists it, with where its values come from") {
  const std::string text = protocol();
  const size_t begin = text.find("## The ladder");
  REQUIRE(begin != std::string::npos);
  const std::string part = text.substr(begin, text.find("\n## ", begin + 4) - begin);
  std::vector<std::pair<uint16_t, std::string>> listed;
  const std::regex row("\\| (\\d+) \\| ?(.*?) ?\\|\\n");
  for (auto m = std::sregex_iterator(part.begin(), part.end(), row); m != std::sregex_iterator();
       ++m)
    listed.emplace_back(static_cast<uint16_t>(std::stoi((*m)[1])), (*m)[2]);
  REQUIRE(listed.size() == ladder().size());
  for (size_t i = 0; i < listed.size(); ++i) {
    const Rung& r = ladder()[i];
    CHECK(listed[i].first == r.size);
    CHECK(listed[i].second == (r.where != nullptr ? r.where : ""));
  }
}

TEST_CASE("ladder: it ascends, and no gap up to jumbo frames takes more than one exact round") {
  const auto l = ladder();
  CHECK(l.front().size == floor_of(Family::kIpv4));
  for (size_t i = 1; i < l.size(); ++i) {
    CHECK(l[i].size > l[i - 1].size);
    if (l[i].size <= 9216) CHECK(l[i].size - l[i - 1].size < 510 + 120);
    if (l[i - 1].size >= 1280 && l[i].size <= 9216) CHECK(l[i].size - l[i - 1].size <= 510);
  }
}

TEST_CASE("rounds: bounded, within floor and top, the last one small; the same for both ends") {
  std::mt19937 random(5);
  for (int i = 0; i < 5000; ++i) {
    RoundSpec s{static_cast<RoundKind>(1 + random() % 4), static_cast<uint16_t>(random()),
                static_cast<uint16_t>(random()), static_cast<uint16_t>(random())};
    const Family f = random() % 2 == 0 ? Family::kIpv4 : Family::kIpv6;
    const Round round = plan_round(s, f);
    REQUIRE(!round.empty());
    REQUIRE(round.size() <= kMaxProbes);
    CHECK(round.back().size == floor_of(f));
    CHECK_FALSE(round.back().fragmentable);
    for (const Packet& p : round) {
      CHECK(p.size >= floor_of(f));
      CHECK(p.size <= std::max(s.top, floor_of(f)));
      if (f == Family::kIpv6) CHECK_FALSE(p.fragmentable);
    }
  }
}
