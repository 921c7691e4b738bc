// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/ethdev_port.h"

#include <rte_ethdev.h>

#include "pxio/dp/finish_checksum.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"

namespace pxio {
namespace {

void add_one(std::atomic<uint64_t>& count) noexcept {
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// The sender, on the same machine, left the checksum to hardware that isn't there.
void complete(rte_mbuf& m) noexcept {
  const PacketView v = parse(m, Link::kEthernet);
  m.ol_flags &= ~RTE_MBUF_F_RX_L4_CKSUM_MASK;
  if (make_l4_checksum(m, v)) m.ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
}

}  // namespace

uint16_t EthdevPort::rx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept {
  const uint16_t got = rte_eth_rx_burst(s_.id, queue, pkts, n);
  if (s_.checks) {
    for (uint16_t i = 0; i < got; ++i) {
      if ((pkts[i]->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_NONE) [[unlikely]]
        complete(*pkts[i]);
    }
  }
  return got;
}

rte_mbuf* EthdevPort::fit(Queue& q, rte_mbuf* m) noexcept {
  PktPtr pkt(m);
  if (pkt->pkt_len > s_.max_frame) {
    add_one(q.tx_too_big);
    return nullptr;
  }
  if (pkt->nb_segs > s_.max_segs) {
    pkt = copy_packet(*pkt, s_.buffers.large);
    if (!pkt || pkt->nb_segs > s_.max_segs) {
      add_one(q.tx_errors);
      return nullptr;
    }
  }
  return pkt.release();
}

uint16_t EthdevPort::tx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept {
  Queue& q = queues_[queue];
  uint16_t done = 0;
  while (done < n) {
    uint16_t end = done;
    while (end < n && pkts[end]->nb_segs <= s_.max_segs && pkts[end]->pkt_len <= s_.max_frame) ++end;
    if (end == done) {
      // The first can't go as it is: made fit it is taken up again, dropped it counts as taken.
      pkts[done] = fit(q, pkts[done]);
      if (pkts[done] == nullptr) ++done;
      continue;
    }
    const auto want = static_cast<uint16_t>(end - done);
    const uint16_t sent = rte_eth_tx_burst(s_.id, queue, pkts + done, want);
    done = static_cast<uint16_t>(done + sent);
    if (sent < want) break;
  }
  return done;
}

}  // namespace pxio
