// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/core/session.h"

#include <algorithm>
#include <array>

namespace fpmtud {
namespace {

// Before a round trip is known: RFC 8085, section 3.1.1; then longer.
constexpr std::array<Time, 4> kPatience{1s, 1s, 1500ms, 2s};
constexpr Time kLongest = 5s;
constexpr Time kLeastTimeout = 20ms;
// What is overtaken by its round's last probe may still come.
constexpr Time kLeastGrace = 500us, kMostGrace = 50ms;
constexpr size_t kMaxRounds = 16;
// However long answers drip in, a round ends that long after it was sent.
constexpr Time kLongestRound = 8s;
// For an allowance to come back.
constexpr Time kPause = 2s;
constexpr uint16_t kHintReach = 4;
constexpr size_t kConfirmRungs = 4;
// Clocks of one host; anything else is an answer to nothing that was sent here.
constexpr Time kOldest = 60s;

}  // namespace

Seen seen_of(const Report& r) {
  return {.round = r.head.round,
          .seq = r.seq,
          .size = r.size,
          .flags = r.head.flags,
          .fragment = r.fragment,
          .sent = r.sent,
          .tally = r.tally};
}

Session::Session(const SessionConfig& config, Time now)
    : config_(config),
      evidence_(config.family, config.top),
      send_at_(now),
      began_(now),
      deadline_(Time::max()) {
  const uint16_t first = evidence_.top();
  begin_round(config.check ? RoundSpec{.kind = RoundKind::kEverySize, .low = first, .high = first, .top = first}
                           : RoundSpec{.kind = RoundKind::kFull, .top = first});
}

void Session::begin_round(const RoundSpec& spec) {
  specs_.push_back(spec);
  round_ = plan_round(spec, config_.family);
  acked_.reset();
  whole_ = 0;
  answered_ = complete_ = false;
  state_ = State::kReady;
  deadline_ = Time::max();
}

void Session::round_sent(Time now) {
  if (state_ != State::kReady) return;
  state_ = State::kWaiting;
  round_sent_ = now;
  deadline_ = now + timeout();
  if (complete_) deadline_ = now + std::clamp(srtt_ / 8, kLeastGrace, kMostGrace);
}

Time Session::timeout() const {
  if (srtt_ == Time(0)) return kPatience[std::min<size_t>(knocks_, kPatience.size() - 1)];
  // RFC 6298, section 2, with a shorter floor: a needless wait costs more than a needless probe.
  return std::clamp(srtt_ + std::max(4 * rttvar_, Time(10ms)), kLeastTimeout, kLongest);
}

void Session::sample(Time rtt) {
  if (srtt_ == Time(0)) {
    srtt_ = std::max(rtt, Time(1));
    rttvar_ = rtt / 2;
    return;
  }
  const Time off = rtt > srtt_ ? rtt - srtt_ : srtt_ - rtt;
  rttvar_ += (off - rttvar_) / 4;
  srtt_ += (rtt - srtt_) / 8;
}

bool Session::plausible(const Seen& s) const {
  if (s.round >= specs_.size()) return false;
  const bool current = s.round == round_number();
  const Round old = current ? Round() : plan_round(specs_[s.round], config_.family);
  const Round& round = current ? round_ : old;
  if (s.seq >= round.size() || round[s.seq].size != s.size) return false;
  // Nothing arrives larger than it was sent.
  uint16_t largest = 0, whole = 0, fragmentable = 0;
  for (const Packet& p : round) {
    ++(p.fragmentable ? fragmentable : whole);
    if (!p.fragmentable) largest = std::max(largest, p.size);
  }
  const uint16_t top = specs_[s.round].top;
  return s.fragment <= s.size && s.tally.largest_whole <= largest &&
         s.tally.cut_anyway <= largest && s.tally.largest_fragment <= top && s.tally.uncut <= top &&
         s.tally.whole <= whole && s.tally.fragmentable <= fragmentable;
}

bool Session::seen(const Seen& s, Time now) {
  if (done() || !plausible(s)) return false;
  const Time sent(static_cast<int64_t>(s.sent));
  if (sent < began_ || sent > now || now - sent > kOldest) return false;
  any_answer_ = true;
  sample(now - sent);
  if ((s.flags & kLimited) != 0) {
    notes_ |= kRateLimited;
    // What comes late doesn't put off the next round again.
    if (state_ == State::kWaiting) send_at_ = now + kPause;
  }
  evidence_.add(s.tally);
  if (s.round != round_number()) return true;
  if (!answered_) ++answered_rounds_;
  answered_ = true;
  const bool fragmentable = round_[s.seq].fragmentable;
  // The tally alone isn't enough where a report of this probe came, but the tally had been
  // displaced.
  Tally own;
  if (!fragmentable && s.fragment == 0) own.largest_whole = s.size;
  evidence_.add(own);
  acked_[s.seq] = true;
  uint16_t acked = 0;
  for (size_t i = 0; i < round_.size(); ++i) acked += acked_[i] && !round_[i].fragmentable ? 1 : 0;
  whole_ = std::max({whole_, acked, s.tally.whole});
  complete_ = complete_ || s.seq + 1u == round_.size();
  if (evidence_.proven() >= evidence_.top()) {
    finish(Verdict::kMeasured, *evidence_.finding(), now);  // whatever is still under way
  } else if (complete_ && state_ == State::kWaiting) {
    deadline_ = std::min(deadline_, now + std::clamp(srtt_ / 8, kLeastGrace, kMostGrace));
  } else if (state_ == State::kWaiting) {
    deadline_ = std::max(deadline_, std::min(now + timeout() / 2, round_sent_ + kLongestRound));
  }
  return true;
}

void Session::hint(uint16_t mtu) {
  if (mtu < floor_of(config_.family) || mtu >= evidence_.top()) return;
  hint_ = mtu;
  least_hint_ = least_hint_ == 0 ? mtu : std::min(least_hint_, mtu);
}

void Session::refuse(Time now) {
  if (!done() && !any_answer_) finish(Verdict::kRefused, {}, now);
}

void Session::expire(Time now) {
  if (state_ == State::kWaiting && now >= deadline_) close_round(now);
}

void Session::close_round(Time now) {
  if (answered_) {
    evidence_.close_round(round_, whole_);
  } else if (!any_answer_ && knocks_ + 1u >= kPatience.size()) {
    return finish(Verdict::kSilent, {}, now);
  }
  if (specs_.size() >= kMaxRounds) return end(now);
  if (!answered_) {
    // A whole round into silence would be a flood. One small probe asks whether anyone is there.
    ++knocks_;
    return begin_round({.kind = RoundKind::kKnock, .top = evidence_.top()});
  }
  go_on(now);
}

void Session::go_on(Time now) {
  const uint16_t top = evidence_.top(), proven = evidence_.proven();
  // Between what passed and `top` nothing has been tried yet.
  if (config_.check && specs_.back().kind == RoundKind::kEverySize && specs_.back().low == specs_.back().top)
    return begin_round({.kind = RoundKind::kFull, .low = proven, .top = top});
  if (const auto f = evidence_.finding()) {
    const bool hinted = config_.use_hints && hint_ > proven && hint_ < f->limit;
    const bool unproven = config_.prove && f->how == How::kFragment && !fragment_tried_;
    if ((config_.exact || hinted || unproven) && !(f->exact() && proven == f->mtu) && narrow(*f)) return;
    return finish(Verdict::kMeasured, *f, now);
  }
  const uint16_t next = evidence_.next();
  if (next == 0)  // only small ones were sent so far, or the interface's MTU has changed
    return begin_round({.kind = RoundKind::kFull, .low = proven, .top = top});
  // Loss or size? The next few rungs again, beside a size that is known to pass.
  if (next == proven + 1u) {
    const auto high = static_cast<uint16_t>(std::min<uint32_t>(proven + kHintReach, top));
    return begin_round({.kind = RoundKind::kEverySize, .low = proven, .high = high, .top = top});
  }
  begin_round(
      {.kind = RoundKind::kConfirm, .low = proven, .high = confirm_up_to(next), .top = top});
}

// `next` and a few rungs above it; `next` alone where it isn't a rung, since then all of them
// failed.
uint16_t Session::confirm_up_to(uint16_t next) const {
  const auto rungs = ladder();
  auto at = std::find_if(rungs.begin(), rungs.end(), [&](const Rung& r) { return r.size == next; });
  if (at == rungs.end()) return next;
  for (size_t n = 1; n < kConfirmRungs && at->size < evidence_.top() && at + 1 != rungs.end(); ++n)
    ++at;
  return std::min(at->size, evidence_.top());
}

// Begins a round of all sizes that the path MTU may have, or of those that something points to.
bool Session::narrow(const Finding& f) {
  const uint16_t proven = evidence_.proven(), next = evidence_.next();
  uint32_t low = proven + 1u, high = (next != 0 ? next : f.limit) - 1u;
  if (high < low) return false;
  if (f.how != How::kLadder && !fragment_tried_) {
    fragment_tried_ = true;
    low = std::max<uint32_t>(low, evidence_.fragment());
    high = std::min<uint32_t>(high, f.limit - 1u);
  } else if (hint_ + uint32_t{kHintReach} >= low && hint_ <= high && hint_ != hint_tried_) {
    hint_tried_ = hint_;  // often just what has passed: then nothing larger must
    low = std::max<uint32_t>(low, hint_ - kHintReach);
    high = std::min<uint32_t>(high, hint_ + kHintReach);
  } else if (!config_.exact) {
    return false;
  }
  begin_round({.kind = RoundKind::kEverySize,
               .low = static_cast<uint16_t>(low),
               .high = static_cast<uint16_t>(high),
               .top = evidence_.top()});
  return true;
}

void Session::end(Time now) {
  if (done()) return;
  const Finding f = evidence_.at_least();
  finish(f.how == How::kNone ? Verdict::kSilent : Verdict::kLowerBound, f, now);
}

void Session::finish(Verdict v, const Finding& f, Time now) {
  state_ = State::kDone;
  deadline_ = Time::max();
  result_.verdict = v;
  result_.finding = f;
  result_.proven = evidence_.proven();
  result_.fragment = evidence_.fragment();
  result_.top = evidence_.top();
  result_.notes = static_cast<uint16_t>(evidence_.notes() | notes_);
  if (f.mtu != 0 && least_hint_ != 0 && least_hint_ < f.mtu) result_.notes |= kIcmpFalse;
  result_.round_trips = answered_rounds_;
  result_.rounds = static_cast<uint16_t>(specs_.size());
  result_.rtt = srtt_;
  result_.took = now - began_;
}

}  // namespace fpmtud
