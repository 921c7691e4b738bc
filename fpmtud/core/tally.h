// SPDX-License-Identifier: BSD-3-Clause
// What has arrived of one round, each probe counted once whatever is doubled on the way. Fixed
// size. One thread.
#pragma once
#include <bitset>

#include "fpmtud/core/ladder.h"

namespace fpmtud {

class RoundTally {
 public:
  // `fragment`: the largest fragment of the datagram that arrived, 0 if it came whole.
  void add(const Probe& p, uint16_t fragment);
  const Tally& tally() const { return tally_; }

 private:
  std::bitset<kMaxProbes> seen_;
  Tally tally_;
};

}  // namespace fpmtud
