// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/core/tally.h"

#include <algorithm>

namespace fpmtud {

void RoundTally::add(const Probe& p, uint16_t fragment) {
  if (p.seq >= kMaxProbes || seen_[p.seq]) return;
  seen_[p.seq] = true;
  // Pieces larger than the whole were mixed with another datagram's.
  if (fragment > p.size) return;
  if ((p.head.flags & kFragmentable) != 0) {
    ++tally_.fragmentable;
    if (fragment != 0)
      tally_.largest_fragment = std::max(tally_.largest_fragment, fragment);
    else
      tally_.uncut = std::max(tally_.uncut, p.size);
  } else if (fragment != 0) {
    tally_.cut_anyway = std::max(tally_.cut_anyway, p.size);
  } else {
    ++tally_.whole;
    tally_.largest_whole = std::max(tally_.largest_whole, p.size);
  }
}

}  // namespace fpmtud
