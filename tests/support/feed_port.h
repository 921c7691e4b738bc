// SPDX-License-Identifier: BSD-3-Clause
// A port that also receives: what the test puts in.
#pragma once
#include <deque>

#include "tests/support/eal.h"
#include "tests/support/frame.h"
#include "tests/support/ports.h"

namespace test {

// Gives what was put in, in bursts; takes as long as its budget lasts.
class FeedPort : public CollectPort {
 public:
  uint16_t rx_burst(uint16_t, rte_mbuf** pkts, uint16_t n) noexcept override {
    uint16_t got = 0;
    while (got < n && !feed.empty()) {
      pkts[got++] = to_mbuf(feed.front(), pools().buffers()).release();
      feed.pop_front();
    }
    return got;
  }
  std::deque<Frame> feed;
};

}  // namespace test
