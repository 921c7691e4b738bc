// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/core/responder.h"

#include <algorithm>
#include <cstring>

namespace fpmtud {
namespace {

constexpr Time kCookieEpoch = std::chrono::seconds(30);

uint64_t word_of(const Nonce& n) {
  uint64_t w;
  std::memcpy(&w, n.data(), sizeof w);
  return w;
}

}  // namespace

Responder::Responder(const ResponderConfig& config)
    : config_(config),
      table_secret_(word_of(config.secret)),
      cookie_key_(config.secret.begin(), config.secret.end()),
      limiter_(config.per_source, config.total, table_secret_),
      entries_(std::make_unique<Entry[]>(kSets * kWays)) {}

size_t Responder::answer(const Arrival& a, Time now, std::span<uint8_t, kReportBytes> out,
                         std::optional<Request>& request) {
  request.reset();
  const auto type = type_of(a.payload);
  if (!type || *type == Type::kReport) {
    ++counters_.drop_not_ours;
    return 0;
  }
  if (((a.payload[6] & kSigned) != 0) != config_.key.has_value()) {
    ++counters_.drop_unsigned;
    return 0;
  }
  // Before it counts against anyone: who can't sign can't use up a source's allowance.
  std::optional<Request> asked;
  std::optional<Probe> p;
  if (*type == Type::kRequest)
    asked = parse_request(a.payload, key());
  else
    p = parse_probe(a.payload, a.from.family, key(), a.length);
  if (!asked && (!p || (p->head.flags & kReverse) != 0 || p->seq >= kMaxProbes)) {
    ++counters_.drop_not_ours;
    return 0;
  }
  const uint64_t bytes = std::max(a.length, a.payload.size()) + header_bytes(a.from.family);
  if (!limiter_.take(a.from, bytes, now)) {
    ++counters_.drop_limit;
    return 0;
  }
  if (asked) {
    if (may_send(a.from, *asked, now)) request = asked;
    return 0;
  }
  ++counters_.probes;
  Report r;
  r.head = {.flags = static_cast<uint8_t>(p->head.flags & (kLast | kFragmentable)),
            .round = p->head.round,
            .nonce = p->head.nonce};
  r.seq = p->seq;
  r.size = p->size;
  r.fragment = a.fragment;
  r.ttl = a.ttl;
  r.sent = p->sent;
  r.tally = record(a.from, *p, a.fragment, now);
  if ((p->head.flags & kWantCookie) != 0)
    r.cookie = cookie(a.from, p->head.nonce, now / kCookieEpoch);
  if (!limiter_.has(a.from, bytes, now)) r.head.flags |= kLimited;
  encode(r, key(), out);
  ++counters_.reports;
  return kReportBytes;
}

bool Responder::may_send(const Endpoint& to, const Request& r, Time now) {
  ++counters_.requests;
  if (!config_.reverse) {
    ++counters_.drop_refused;
    return false;
  }
  if (!cookie_ok(to, r, now)) {
    ++counters_.drop_cookie;
    return false;
  }
  uint64_t cost = 0;
  for (const Packet& p : plan_round(r.spec, to.family)) cost += p.size;
  if (!limiter_.take(to, cost, now)) {
    ++counters_.drop_limit;
    return false;
  }
  ++counters_.rounds;
  return true;
}

const Tally& Responder::record(const Endpoint& from, const Probe& p, uint16_t fragment, Time now) {
  const uint64_t hash =
      spread(p.head.nonce.data(), p.head.nonce.size(), table_secret_ + p.head.round);
  Entry* set = &entries_[(hash % kSets) * kWays];
  Entry* entry = set;
  for (Entry* e = set; e < set + kWays; ++e) {
    if (e->used >= Time(0) && e->nonce == p.head.nonce && e->round == p.head.round &&
        e->from == from && now - e->used <= kLifetime) {
      entry = e;
      entry->used = now;
      entry->tally.add(p, fragment);
      return entry->tally.tally();
    }
    if (e->used < entry->used) entry = e;
  }
  // Displaced rounds lose their tally, not their answers: each report speaks of its own probe, too.
  *entry = Entry{from, p.head.nonce, p.head.round, now, RoundTally{}};
  entry->tally.add(p, fragment);
  return entry->tally.tally();
}

uint64_t Responder::cookie(const Endpoint& from, const Nonce& nonce, int64_t epoch) const {
  std::array<uint8_t, 1 + 16 + 2 + 16 + 8> in{};
  in[0] = static_cast<uint8_t>(from.family);
  std::copy(from.address.begin(), from.address.end(), in.begin() + 1);
  in[17] = static_cast<uint8_t>(from.port >> 8);
  in[18] = static_cast<uint8_t>(from.port);
  std::copy(nonce.begin(), nonce.end(), in.begin() + 19);
  for (size_t i = 0; i < 8; ++i) in[35 + i] = static_cast<uint8_t>(epoch >> (8 * i));
  const Mac mac = mac_of(cookie_key_, in);
  uint64_t c;
  std::memcpy(&c, mac.data(), sizeof c);
  return c;
}

bool Responder::cookie_ok(const Endpoint& from, const Request& r, Time now) const {
  const int64_t epoch = now / kCookieEpoch;
  for (const int64_t e : {epoch, epoch - 1}) {
    const uint64_t c = cookie(from, r.head.nonce, e);
    if (equal_in_constant_time({reinterpret_cast<const uint8_t*>(&c), sizeof c},
                               {reinterpret_cast<const uint8_t*>(&r.cookie), sizeof r.cookie}))
      return true;
  }
  return false;
}

}  // namespace fpmtud
