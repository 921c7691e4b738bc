// SPDX-License-Identifier: BSD-3-Clause
// Finds the path MTU of one direction: says which round of probes to send next, takes in what is
// known of their arrival, and ends with a finding. Works on time that is handed in. One thread.
#pragma once
#include <bitset>
#include <cstdint>
#include <vector>

#include "fpmtud/core/evidence.h"

namespace fpmtud {

struct SessionConfig {
  Family family = Family::kIpv4;
  uint16_t top = 1500;     // the largest size to try: at most the first link's MTU
  bool exact = false;      // to the byte, in one round more
  bool prove = false;      // one more where only a fragment tells, so that `proven` is what is answered
  bool use_hints = false;  // to try what ICMP errors name, as classical discovery does
  bool check = false;      // `top` first, by itself: where another path has shown that it is likely to pass
};

enum class Verdict : uint8_t {
  kMeasured,
  kLowerBound,  // the path loses too much to say more
  kSilent,      // nothing came back: this says nothing about the path MTU
  kRefused,     // the host says that nobody listens there
};

struct PathMtu {
  Verdict verdict = Verdict::kSilent;
  Finding finding;
  uint16_t proven = 0, fragment = 0, top = 0;
  uint16_t notes = 0;        // of Note
  uint16_t round_trips = 0;  // rounds that were answered
  uint16_t rounds = 0;       // rounds sent
  Time rtt{0};               // smoothed; 0: not known
  Time took{0};
};

// What is learnt of a probe's arrival.
struct Seen {
  uint8_t round = 0;
  uint16_t seq = 0, size = 0;
  uint8_t flags = 0;      // of Flag
  uint16_t fragment = 0;  // the largest fragment; 0: it came whole
  uint64_t sent = 0;      // the time that was in the probe
  Tally tally;            // of its round
};

Seen seen_of(const Report& r);

class Session {
 public:
  Session(const SessionConfig& config, Time now);

  Time began() const { return began_; }
  bool done() const { return state_ == State::kDone; }
  // A round is to be sent: `round` and `spec`, numbered `round_number`. Then say `round_sent`.
  bool wants_to_send() const { return state_ == State::kReady; }
  const RoundSpec& spec() const { return specs_.back(); }
  const Round& round() const { return round_; }
  uint8_t round_number() const { return static_cast<uint8_t>(specs_.size() - 1); }
  void round_sent(Time now);
  // Not earlier than this, for a responder that limits.
  Time send_at() const { return send_at_; }

  // Until then nothing has to be done but to take in what comes; afterwards `expire`. Whatever comes, there
  // are at most 16 rounds of 10 s each.
  Time deadline() const { return deadline_; }
  void expire(Time now);
  // Enough: what is known by now is the result.
  void end(Time now);

  // False: it can't be about a probe of this session, or says what can't be.
  bool seen(const Seen& s, Time now);
  // The sender's own interface takes no more than this.
  void limit_top(uint16_t top) { evidence_.limit_top(top); }
  uint16_t top() const { return evidence_.top(); }
  // An ICMP error: never believed, but worth trying.
  void hint(uint16_t mtu);
  // An ICMP error: nobody listens. Not believed once something came back.
  void refuse(Time now);

  const PathMtu& result() const { return result_; }

 private:
  enum class State : uint8_t { kReady, kWaiting, kDone };

  void begin_round(const RoundSpec& spec);
  bool plausible(const Seen& s) const;
  void close_round(Time now);
  void go_on(Time now);
  uint16_t confirm_up_to(uint16_t next) const;
  bool narrow(const Finding& f);
  void sample(Time rtt);
  Time timeout() const;
  void finish(Verdict v, const Finding& f, Time now);

  SessionConfig config_;
  Evidence evidence_;
  State state_ = State::kReady;
  std::vector<RoundSpec> specs_;  // of all rounds: answers may come late
  Round round_;                   // the one under way
  std::bitset<kMaxProbes> acked_;
  uint16_t whole_ = 0;     // unfragmentable probes of this round that arrived, as far as is known
  bool answered_ = false;  // something of this round came back
  bool complete_ = false;  // its last probe arrived
  bool any_answer_ = false;
  uint8_t knocks_ = 0;
  uint16_t hint_ = 0, hint_tried_ = 0, least_hint_ = 0;
  bool fragment_tried_ = false;
  uint16_t notes_ = 0;
  uint16_t answered_rounds_ = 0;
  Time send_at_, began_, deadline_, round_sent_{0};
  Time srtt_{0}, rttvar_{0};
  PathMtu result_;
};

}  // namespace fpmtud
