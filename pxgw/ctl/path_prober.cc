// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/path_prober.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "fpmtud/host/nonce.h"
#include "pxgw/dp/udp_packet.h"

namespace pxgw {

using pxio::Nanos;
using namespace std::chrono_literals;

namespace {

// 64 KiB a millisecond: 0.5 Gb/s, which queues on the way and receivers of default size take.
constexpr uint64_t kChunkBytes = 64 << 10;
constexpr Nanos kChunkPause = 1ms;
// Two workers may ask for the same path, one just before the answer to the other comes.
constexpr Nanos kJustKnown = 1s;
// A host that draws its answers out keeps others waiting no longer.
constexpr Nanos kLongestFlight = 30s;

fpmtud::Family family(const PathKey& k) {
  return k.version == 4 ? fpmtud::Family::kIpv4 : fpmtud::Family::kIpv6;
}

double seconds(Nanos t) { return std::chrono::duration<double>(t).count(); }

}  // namespace

PathKey parse_destination(const std::string& text) {
  std::array<uint8_t, 16> a{};
  if (inet_pton(AF_INET, text.c_str(), a.data()) == 1) return PathKey::of(4, a.data());
  if (inet_pton(AF_INET6, text.c_str(), a.data()) == 1) return PathKey::of(6, a.data());
  throw std::runtime_error(
      fmt::format("'{}' is not an address; give one, as 192.0.2.1 or 2001:db8::1", text));
}

std::string to_string(const PathKey& key) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(key.version == 4 ? AF_INET : AF_INET6, key.bytes(), text, sizeof text);
  return text;
}

PathProber::PathProber(const Options& options, Workers workers)
    : options_(options), workers_(std::move(workers)) {}

// The entry of a destination, a new one if need be.
PathProber::Destination* PathProber::at(const Key& key, Nanos now) {
  const auto it = known_.find(key);
  if (it != known_.end()) return &it->second;
  if (key.first >= options_.top.size()) return nullptr;
  if (known_.size() >= kMaxDestinations) {
    auto oldest = known_.end();
    for (auto k = known_.begin(); k != known_.end(); ++k) {
      if (k->second.state == State::kQueued || k->second.state == State::kProbing) continue;
      if (oldest == known_.end() || k->second.since < oldest->second.since) oldest = k;
    }
    if (oldest == known_.end()) return nullptr;
    known_.erase(oldest);
  }
  Destination& d = known_[key];
  d.since = now;
  return &d;
}

void PathProber::take(uint16_t worker, const Report& r, Nanos now) {
  using Kind = Report::Kind;
  const Key key{r.pair, r.to};
  switch (r.kind) {
    case Kind::kElephant:
    case Kind::kWatched:
      return learn_way(worker, r, now);
    case Kind::kLowered: {
      Destination* d = at(key, now);
      if (d == nullptr) return;
      d->mtu = r.mtu;
      d->lowered = true;
      if (d->state != State::kQueued && d->state != State::kProbing) {
        d->state = State::kLowered;
        d->since = now;
      }
      const Command c{.kind = Command::Kind::kLower, .pair = r.pair, .mtu = r.mtu, .to = r.to};
      for (uint16_t w = 0; w < workers_.count; ++w)
        if (w != worker) workers_.tell(w, c);
      return;
    }
    case Kind::kAnswer:
    case Kind::kRefused:
      break;
  }
  const auto f = std::find_if(flights_.begin(), flights_.end(), [&](const Flight& x) {
    return x.nonce == r.nonce && x.key == key && x.from == r.from;
  });
  if (f == flights_.end()) return;
  if (r.kind == Kind::kRefused) return f->session.refuse(now);
  const fpmtud::Key* secret = options_.key ? &*options_.key : nullptr;
  if (const auto report = fpmtud::parse_report({r.bytes.data(), r.length}, secret))
    f->session.seen(fpmtud::seen_of(*report), r.at);
}

// A worker knows how packets get to a destination and wants to know what it carries.
void PathProber::learn_way(uint16_t worker, const Report& r, Nanos now) {
  const Key key{r.pair, r.to};
  Destination* d = at(key, now);
  if (d == nullptr || !options_.probe) return;
  d->worker = worker;
  d->from = r.from;
  d->l2.assign(r.bytes.begin(), r.bytes.begin() + r.length);
  if (d->state == State::kQueued || d->state == State::kProbing) return;
  const bool just_known = d->probes != 0 && !d->lowered && now - d->since < kJustKnown;
  if (just_known && r.kind == Report::Kind::kElephant) {
    if (d->state == State::kConfirmed)
      workers_.tell(worker,
                    {.kind = Command::Kind::kConfirm, .pair = r.pair, .mtu = d->mtu, .to = r.to});
    return;
  }
  enqueue(key, *d, now);
}

// Where too many wait, the worker asks again after a while.
void PathProber::enqueue(const Key& key, Destination& d, Nanos now) {
  if (queue_.size() >= kMaxQueued) return;
  d.state = State::kQueued;
  d.since = now;
  queue_.push_back(key);
}

void PathProber::tell_all(Command c) {
  for (uint16_t w = 0; w < workers_.count; ++w) workers_.tell(w, c);
}

void PathProber::begin(const Key& key, Nanos now) {
  const auto it = known_.find(key);
  if (it == known_.end() || it->second.state != State::kQueued) return;
  Destination& d = it->second;
  d.state = State::kProbing;
  d.since = now;
  ++d.probes;
  d.paths = {};
  launch(key, d, {.family = family(key.second), .top = options_.top[key.first], .prove = true},
         now);
}

void PathProber::launch(const Key& key, Destination& d, const fpmtud::SessionConfig& config,
                        Nanos now) {
  ++d.under_way;
  Flight f{.key = key,
           .session = fpmtud::Session(config, now),
           .check = config.check,
           .nonce = fpmtud::random_nonce(),
           .from = d.from};
  // Of the range that hosts take for themselves; the nonce tells answers apart from those to a
  // host. Another for each: two checks by one port are of one path, and answers go by it.
  const auto taken = [&](uint16_t port) {
    return std::any_of(flights_.begin(), flights_.end(),
                       [&](const Flight& x) { return x.key == key && x.from_port == port; });
  };
  do f.from_port = static_cast<uint16_t>(32768 + random_() % 28232);
  while (taken(f.from_port));
  flights_.push_back(std::move(f));
}

Nanos PathProber::advance(Nanos now) {
  const fpmtud::Allowance rate{options_.per_second, options_.per_second};
  while (!queue_.empty() && flights_.size() < kMaxFlights && starts_.take(rate, 1, now)) {
    const Key key = queue_.front();
    queue_.pop_front();
    begin(key, now);
  }
  Nanos next = queue_.empty() ? Nanos::max() : now + 1s / options_.per_second;
  uint64_t chunk = 0;
  for (auto f = flights_.begin(); f != flights_.end();) {
    f->session.expire(now);
    if (now - f->session.began() >= kLongestFlight) f->session.end(now);
    if (f->session.wants_to_send() && f->session.send_at() <= now && !send_some(*f, chunk, now))
      next = std::min(next, now + kChunkPause);
    else if (f->session.wants_to_send())
      next = std::min(next, std::max(f->session.send_at(), now));
    if (f->session.done()) {
      landed(*f, now);
      f = flights_.erase(f);
      next = std::min(next, now);  // for those that wait
      continue;
    }
    next = std::min({next, f->session.deadline(), f->session.began() + kLongestFlight});
    ++f;
  }
  return next;
}

// Sends what is left of the round, as far as it may be now. True: all of it has been sent.
bool PathProber::send_some(Flight& f, uint64_t& chunk, Nanos now) {
  const auto& [pair, to] = f.key;
  const Destination& d = known_.at(f.key);
  for (; f.told < workers_.count; ++f.told) {
    const Command c{.kind = Command::Kind::kExpect,
                    .pair = pair,
                    .port = options_.port,
                    .from_port = f.from_port,
                    .to = to,
                    .from = f.from,
                    .nonce = f.nonce};
    if (!workers_.tell(static_cast<uint16_t>(f.told), c)) return false;
  }
  const fpmtud::Round& round = f.session.round();
  const size_t headers = d.l2.size() + udp_headers(to.version);
  for (; f.next < round.size(); ++f.next) {
    const fpmtud::Packet& p = round[f.next];
    if (chunk + p.size > kChunkBytes) return false;
    const bool last = f.next + 1 == round.size();
    fpmtud::Probe probe;
    probe.head = {.flags = static_cast<uint8_t>((p.fragmentable ? fpmtud::kFragmentable : 0) |
                                                (last ? fpmtud::kLast : 0)),
                  .round = f.session.round_number(),
                  .nonce = f.nonce};
    probe.seq = static_cast<uint16_t>(f.next);
    probe.size = p.size;
    probe.top = std::max(f.session.top(), p.size);
    probe.sent = static_cast<uint64_t>(now.count());
    frame_.resize(d.l2.size() + p.size);
    const std::span<uint8_t> frame(frame_);
    encode(probe, options_.key ? &*options_.key : nullptr, frame.subspan(headers));
    write_udp_headers(frame, d.l2, {f.from, to, f.from_port, options_.port},
                      p.fragmentable ? Fragmentable::kYes : Fragmentable::kNo,
                      static_cast<uint16_t>(random_()));
    if (!workers_.transmit(d.worker, pair, frame)) return false;
    chunk += p.size;
  }
  f.next = 0;
  f.session.round_sent(now);
  return true;
}

// What is only a lower bound says nothing where it lies below what would be taken for true anyway.
bool PathProber::usable(const fpmtud::PathMtu& r, uint8_t pair) const {
  using fpmtud::Verdict;
  return r.proven != 0 && (r.verdict == Verdict::kMeasured || (r.verdict == Verdict::kLowerBound &&
                                                               r.proven > options_.assumed[pair]));
}

void PathProber::landed(const Flight& f, Nanos now) {
  Destination& d = known_.at(f.key);
  const auto& [pair, to] = f.key;
  const fpmtud::PathMtu& r = f.session.result();
  tell_all({.kind = Command::Kind::kExpectEnd, .pair = pair, .nonce = f.nonce});
  --d.under_way;
  d.paths.add(f.from_port, r);
  // Up to what is taken for true anyway there is nothing to lose.
  if (!f.check && usable(r, pair) && r.proven > options_.assumed[pair]) {
    const fpmtud::SessionConfig config{.family = family(to), .top = r.proven, .prove = true, .check = true};
    for (uint16_t i = 0; i < kChecks; ++i) launch(f.key, d, config, now);
  }
  if (d.under_way == 0) settle(f.key, d, now);
}

void PathProber::settle(const Key& key, Destination& d, Nanos now) {
  const auto& [pair, to] = key;
  const fpmtud::PathMtu& r = d.paths.result();
  const uint16_t mtu = r.proven;
  d.took = now - d.since;
  d.since = now;
  if (usable(r, pair)) {
    d.state = State::kConfirmed;
    d.mtu = mtu;
    d.lowered = false;
    tell_all({.kind = Command::Kind::kConfirm, .pair = pair, .mtu = mtu, .to = to});
  } else {
    d.state = d.lowered ? State::kLowered : State::kSilent;
    tell_all({.kind = Command::Kind::kSilent, .pair = pair, .to = to});
  }
}

void PathProber::probe(const PathKey& to, Nanos now) {
  if (!options_.probe)
    throw std::runtime_error(
        "this gateway doesn't probe; give `pmtu: {probe: on}` in its configuration");
  bool known = false;
  for (auto& [key, d] : known_) {
    if (!(key.second == to) || d.from.version == 0) continue;
    known = true;
    if (d.state != State::kQueued && d.state != State::kProbing) enqueue(key, d, now);
  }
  for (size_t pair = 0; !known && pair < options_.top.size(); ++pair) {
    const auto p = static_cast<uint8_t>(pair);
    if (Destination* d = at({p, to}, now)) {
      d->state = State::kAwaited;
      d->since = now;
    }
    tell_all({.kind = Command::Kind::kWatchFor, .pair = p, .to = to});
  }
}

void PathProber::flush() {
  for (size_t pair = 0; pair < options_.top.size(); ++pair)
    tell_all({.kind = Command::Kind::kForget, .pair = static_cast<uint8_t>(pair)});
  std::erase_if(known_, [](const auto& k) {
    return k.second.state != State::kQueued && k.second.state != State::kProbing;
  });
}

Json PathProber::row(const Key& key, const Destination& d, Nanos now) const {
  static constexpr std::array kStates = {"awaited",   "queued",  "probing",
                                         "confirmed", "lowered", "silent"};
  static constexpr std::array kHow = {"none", "fragment", "ladder", "both"};
  static constexpr std::pair<fpmtud::Note, const char*> kNotes[] = {
      {fpmtud::kFragmentsFiltered, "fragments_filtered"},
      {fpmtud::kReassembler, "reassembler"},
      {fpmtud::kDfCleared, "df_cleared"},
      {fpmtud::kLoss, "loss"},
      {fpmtud::kRateLimited, "rate_limited"}};
  Json j = {{"destination", to_string(key.second)}, {"pair", key.first}};
  j["mtu"] = d.mtu != 0 ? Json(d.mtu) : Json(nullptr);
  j["state"] = kStates[static_cast<size_t>(d.state)];
  j["age_s"] = seconds(now - d.since);
  j["probes"] = d.probes;
  const fpmtud::PathMtu& r = d.paths.result();
  if (d.under_way != 0 || r.rounds == 0) return j;
  j["how"] = kHow[static_cast<size_t>(r.finding.how)];
  j["paths_differ"] = d.paths.differ();
  // Checks follow the first answer.
  j["round_trips"] = r.round_trips + (d.paths.each().size() > 1 ? 1 : 0);
  j["rtt_ms"] = 1e3 * seconds(r.rtt);
  j["took_ms"] = 1e3 * seconds(d.took);
  j["from"] = to_string(d.from);
  j["notes"] = Json::array();
  for (const auto& [note, name] : kNotes)
    if ((r.notes & note) != 0) j["notes"].push_back(name);
  return j;
}

Json PathProber::list(Nanos now) const {
  Json j = {{"probe", options_.probe}, {"destinations", Json::array()}};
  for (const auto& [key, d] : known_)
    if (now - d.since <= options_.lifetime) j["destinations"].push_back(row(key, d, now));
  return j;
}

Json PathProber::show(const PathKey& to, Nanos now) const {
  Json j = {{"probe", options_.probe}, {"destinations", Json::array()}};
  for (const auto& [key, d] : known_)
    if (key.second == to && now - d.since <= options_.lifetime)
      j["destinations"].push_back(row(key, d, now));
  return j;
}

}  // namespace pxgw
