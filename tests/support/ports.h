// SPDX-License-Identifier: BSD-3-Clause
// Ports made of vectors.
#pragma once
#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "pxio/dp/port.h"
#include "tests/support/decode.h"
#include "tests/support/nic.h"

namespace test {

// Takes up to `budget` packets and decodes them. What is marked for it to cut it cuts, as a NIC does.
class CollectPort : public pxio::Port {
 public:
  explicit CollectPort(bool ethernet = true, const pxio::Segmenting& cuts = {})
      : ethernet_(ethernet), cuts_(cuts) {}
  pxio::Segmenting can_segment() const noexcept override { return cuts_; }
  uint16_t rx_burst(uint16_t, rte_mbuf**, uint16_t) noexcept override { return 0; }
  uint16_t tx_burst(uint16_t, rte_mbuf** pkts, uint16_t n) noexcept override {
    const auto take = static_cast<uint16_t>(std::min<uint64_t>(n, budget));
    budget -= take;
    for (uint16_t i = 0; i < take; ++i) {
      pxio::PktPtr p(pkts[i]);
      most_buffers = std::max<unsigned>(most_buffers, p->nb_segs);
      std::vector<Bytes> frames{to_bytes(*p)};
      if ((p->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0 && cuts_.able) {
        frames = cut_as_nic(frames[0], p->l2_len, p->l3_len, p->l4_len, p->tso_segsz);
        ++cut;
      }
      for (const Bytes& f : frames) {
        seen.push_back(decode(f, ethernet_));
        seen.back().time = now;
      }
      if ((p->ol_flags & RTE_MBUF_F_RX_LRO) != 0) seen.back().segsz = p->tso_segsz;
      total += frames.size();
    }
    return take;
  }
  std::vector<Decoded> take() {
    std::vector<Decoded> r;
    r.swap(seen);
    return r;
  }

  void forget() { seen.clear(); }

  std::vector<Decoded> seen;
  std::chrono::nanoseconds now{0};
  uint64_t total = 0;
  uint64_t cut = 0;  // packets that it cut
  unsigned most_buffers = 0;
  uint64_t budget = std::numeric_limits<uint64_t>::max();

 private:
  bool ethernet_;
  pxio::Segmenting cuts_;
};

}  // namespace test
