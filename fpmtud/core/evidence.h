// SPDX-License-Identifier: BSD-3-Clause
// What the probes of one direction have shown, and what follows from it for the path MTU. One
// thread.
#pragma once
#include <cstdint>
#include <map>
#include <optional>

#include "fpmtud/core/ladder.h"

namespace fpmtud {

enum class How : uint8_t { kNone, kFragment, kLadder, kBoth };

// What was odd.
enum Note : uint16_t {
  kFragmentsFiltered = 1,  // no fragmentable probe arrived although smaller ones did
  kReassembler = 2,        // fragments or whole probes arrived that are larger than what passes
  kDfCleared = 4,          // an unfragmentable probe arrived in fragments
  kLoss = 8,
  kRateLimited = 16,  // the responder said so
  kIcmpFalse = 32,    // an ICMP error named a smaller MTU than what passes
  kViaEcho = 64,      // measured by ICMP echo: no responder there
};

// The path MTU is at least `mtu` and below `limit`.
struct Finding {
  How how = How::kNone;
  uint16_t mtu = 0;
  uint16_t limit = 0;  // 0: nothing larger was to be tried
  bool exact() const { return limit == 0 || limit == mtu + 1; }
};

class Evidence {
 public:
  Evidence(Family family, uint16_t top);

  // Of any round. Values that can't be are ignored.
  void add(const Tally& t);
  // Nothing above this leaves the sender's own interface.
  void limit_top(uint16_t top);
  // A round whose answers are in, or won't come. `whole`: unfragmentable probes that arrived.
  void close_round(const Round& round, uint16_t whole);

  // The answer, if what is known suffices for one.
  std::optional<Finding> finding() const;
  // The best that can be said if it has to be now; `how` is kNone if nothing arrived.
  Finding at_least() const;

  uint16_t top() const { return top_; }
  uint16_t proven() const { return proven_; }      // the largest unfragmentable that arrived whole
  uint16_t fragment() const { return fragment_; }  // the largest fragment; 0: none
  uint16_t next() const;  // the smallest size above `proven` that is missing
  bool clean() const { return lost_ == 0; }
  bool sure_of_next() const;  // that it's missing for its size
  uint16_t notes() const;

 private:
  bool fragment_agrees() const;

  Family family_;
  uint16_t top_;
  uint16_t proven_ = 0, fragment_ = 0, uncut_ = 0, cut_anyway_ = 0;
  uint32_t fragmentable_sent_ = 0, fragmentable_arrived_ = 0;
  uint32_t sent_ = 0, lost_ = 0;          // probes of sizes that pass
  std::map<uint16_t, uint32_t> missing_;  // probes that didn't arrive, by sizes above `proven`
};

}  // namespace fpmtud
