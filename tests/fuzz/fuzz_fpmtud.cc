// SPDX-License-Identifier: BSD-3-Clause
// Any datagram to a responder and to a prober, signed and not: parsed or refused, never more than
// the rules allow. The first byte says who gets it, in which family, and with which largest
// fragment.
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "fpmtud/core/responder.h"
#include "fpmtud/core/session.h"
#include "tests/fuzz/input.h"

using namespace test;
using namespace fpmtud;

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

namespace {

constexpr Time kNow = std::chrono::seconds(5);

void to_responder(Family family, uint16_t fragment, const ::test::Bytes& payload, const Key* key) {
  ResponderConfig config;
  if (key != nullptr) config.key = *key;
  Responder responder(config);
  std::array<uint8_t, kReportBytes> out;
  std::optional<Request> request;
  const Endpoint from{.family = family, .port = 9};
  const size_t n = responder.answer({.from = from, .payload = payload, .fragment = fragment}, kNow,
                                    out, request);
  fuzz_check(n <= payload.size(), "a report larger than what asked for it");
  fuzz_check(!request, "a round without a cookie");
  if (n == 0) return;
  const auto report = parse_report(std::span(out).first(n), key);
  fuzz_check(report.has_value(), "a report that can't be read");
  fuzz_check(report->tally.largest_whole <= report->size, "more than was sent");
}

void to_prober(Family family, const ::test::Bytes& payload) {
  const auto report = parse_report(payload, nullptr);
  if (!report) return;
  Session s({.family = family, .top = 1500}, std::chrono::seconds(1));
  s.round_sent(std::chrono::seconds(1));
  s.seen(seen_of(*report), kNow);
  for (Time t = kNow; !s.done();) {
    if (s.wants_to_send()) {
      fuzz_check(s.round().size() <= kMaxProbes, "a round without end");
      s.round_sent(t = std::max(t, s.send_at()));
    }
    s.seen(seen_of(*report), t);
    if (s.done() || s.wants_to_send()) continue;
    s.expire(t = s.deadline());
  }
  const PathMtu r = s.result();
  fuzz_check(r.finding.mtu <= 1500, "larger than what was sent");
  fuzz_check(r.finding.mtu == 0 || r.finding.mtu >= floor_of(family), "below the floor");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Key key(32, 'k');
  FuzzInput in(data, size);
  const uint8_t how = in.u8();
  const uint16_t fragment = (how & 8) != 0 ? in.u16() : uint16_t{0};
  const Family family = (how & 1) != 0 ? Family::kIpv6 : Family::kIpv4;
  ::test::Bytes payload = in.rest();
  // Padding isn't what it is about: some bytes more let short inputs be probes.
  if ((how & 4) != 0 && payload.size() >= kProbeBytes) {
    payload.resize(1500 - header_bytes(family));
    payload[26] = 1500 >> 8;
    payload[27] = 1500 & 0xff;
  }
  if ((how & 16) != 0) {
    to_prober(family, payload);
  } else {
    // With a good MAC, so that what follows the check is reached.
    if ((how & 2) != 0 && payload.size() >= kProbeBytes) {
      payload[6] |= kSigned;
      const Mac mac =
          mac_of(key, std::span<const uint8_t>(payload).first(kProbeBytes - sizeof(Mac)));
      std::copy(mac.begin(), mac.end(), payload.begin() + kProbeBytes - sizeof(Mac));
    }
    to_responder(family, fragment, payload, (how & 2) != 0 ? &key : nullptr);
  }
  return 0;
}
