// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fpmtud/unit/path.h"

#include <algorithm>
#include <array>

namespace test {

uint16_t Path::truth() const { return *std::min_element(mtus.begin(), mtus.end()); }

std::optional<uint16_t> Path::carry(uint16_t size, bool fragmentable) {
  std::vector<uint16_t> pieces{size};
  bool joined = false;
  for (size_t i = 0; i < mtus.size(); ++i) {
    std::vector<uint16_t> next;
    for (const uint16_t piece : pieces) {
      if (piece <= mtus[i]) {
        next.push_back(piece);
        continue;
      }
      if ((!fragmentable && !clears_df) || family == Family::kIpv6) return {};
      // 20 bytes of header and a multiple of 8 each, but for the last (RFC 791).
      const auto step = static_cast<uint16_t>((mtus[i] - 20) / 8 * 8);
      int left = piece - 20;
      for (; left > step; left -= step) next.push_back(static_cast<uint16_t>(step + 20));
      next.push_back(static_cast<uint16_t>(left + 20));
    }
    pieces = std::move(next);
    if (pieces.size() > 1 && drop != Drop::kNone) return {};
    if (i == reassembler && pieces.size() > 1) {
      pieces = {size};
      joined = true;
    }
  }
  // A datagram is lost with any of its pieces; which link loses it doesn't matter.
  for (size_t i = 0; i < pieces.size() + (joined ? 3 : 0); ++i)
    if (lost()) return {};
  return pieces.size() == 1 ? uint16_t{0} : *std::max_element(pieces.begin(), pieces.end());
}

Endpoint someone(uint8_t last, Family family) {
  Endpoint e{.family = family, .port = 1024};
  e.address = {10, 0, 0, last};
  if (family == Family::kIpv6) e.address = {0xfd, 0, 0, 0, 0, 0, 0, last, 1};
  return e;
}

ResponderConfig generous() {
  ResponderConfig c;
  c.per_source = c.total = {1ull << 40, 1ull << 40};
  c.secret = {1, 2, 3};
  return c;
}

std::vector<uint8_t> probe_bytes(Family family, uint16_t size, uint8_t flags, uint8_t round,
                                 uint16_t seq, const Key* key, uint8_t nonce) {
  std::vector<uint8_t> bytes(size - header_bytes(family));
  Probe p;
  p.head = {.flags = flags, .round = round};
  p.head.nonce.fill(nonce);
  p.seq = seq;
  p.size = p.top = size;
  encode(p, key, bytes);
  return bytes;
}

PathMtu measure(Path& path, SessionConfig config, Responder* responder,
                const std::function<bool(Report&)>& on_report) {
  config.family = path.family;
  config.top = std::min(config.top, path.mtus.front());
  Responder own(generous());
  Responder& far = responder != nullptr ? *responder : own;
  Time now = std::chrono::seconds(100);
  Session s(config, now);
  Nonce nonce;
  for (uint8_t& b : nonce) b = static_cast<uint8_t>(path.random());
  while (!s.done()) {
    if (!s.wants_to_send()) {
      now = s.deadline();
      s.expire(now);
      continue;
    }
    now = std::max(now, s.send_at());
    std::vector<Seen> answers;
    const Round round = s.round();
    for (uint16_t seq = 0; seq < round.size(); ++seq) {
      std::vector<uint8_t> bytes(round[seq].size - header_bytes(path.family));
      Probe p;
      p.head = {.flags = static_cast<uint8_t>((round[seq].fragmentable ? kFragmentable : 0) |
                                              (seq + 1u == round.size() ? kLast : 0)),
                .round = s.round_number(),
                .nonce = nonce};
      p.seq = seq;
      p.size = round[seq].size;
      p.top = std::max(s.top(), p.size);
      p.sent = static_cast<uint64_t>(now.count());
      encode(p, nullptr, bytes);
      const auto fragment = path.carry(p.size, round[seq].fragmentable);
      if (!fragment) continue;
      const bool twice = std::uniform_real_distribution<>(0, 1)(path.random) < path.duplicated;
      for (int copy = 0; copy < (twice ? 2 : 1); ++copy) {
        std::array<uint8_t, kReportBytes> out;
        std::optional<Request> request;
        const size_t n =
            far.answer({.from = someone(1, path.family), .payload = bytes, .fragment = *fragment},
                       now, out, request);
        if (n == 0 || path.lost()) continue;
        auto report = parse_report(std::span(out).first(n), nullptr);
        if (report && (!on_report || on_report(*report))) answers.push_back(seen_of(*report));
      }
    }
    if (path.reversed) std::reverse(answers.begin(), answers.end());
    s.round_sent(now);
    const Time arrival = now + path.rtt;
    if (!answers.empty() && arrival > s.deadline()) s.expire(s.deadline());
    now = arrival;
    for (const Seen& a : answers) s.seen(a, now);
  }
  return s.result();
}

PortPaths measure(Ecmp& net, const SessionConfig& config, uint16_t first_port, uint16_t ports) {
  PortPaths r;
  for (uint16_t i = 0; i < ports; ++i) {
    const auto port = static_cast<uint16_t>(first_port + i);
    r.add(port, measure(net.of(port), config));
  }
  return r;
}

}  // namespace test
