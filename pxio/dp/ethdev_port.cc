// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/ethdev_port.h"

#include <rte_ethdev.h>
#include <rte_ip.h>

#include <algorithm>
#include <array>

#include "pxio/dp/checksum.h"
#include "pxio/dp/cut_merged.h"
#include "pxio/dp/finish_checksum.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"
#include "pxio/dp/split.h"

namespace pxio {
namespace {

// Bits for which a received packet is looked at more closely. The last one is part of "bad" and "none".
constexpr uint64_t kNotPlain = RTE_MBUF_F_TX_OFFLOAD_MASK | RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_BAD;
// A full transmit ring drains within microseconds.
constexpr int kRetries = 64;

void add(std::atomic<uint64_t>& count, uint64_t n) noexcept {
  count.store(count.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

// The sender, on the same machine, left the checksum to hardware that isn't there.
void complete(rte_mbuf& m) noexcept {
  const PacketView v = parse(m, Link::kEthernet);
  m.ol_flags &= ~RTE_MBUF_F_RX_L4_CKSUM_MASK;
  if (make_l4_checksum(m, v)) m.ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
}

// As RTE_MBUF_F_TX_TCP_SEG wants it: no checksum in the IPv4 header where the NIC makes it, and in TCP's
// field the sum of the pseudo-header without its length. Any number of times.
void prepare_to_cut(rte_mbuf& m, bool ip_checksum) noexcept {
  auto& tcp = header_at<TcpHeader>(m, m.l2_len + m.l3_len);
  if ((m.ol_flags & RTE_MBUF_F_TX_IPV4) != 0) {
    auto& ip = header_at<rte_ipv4_hdr>(m, m.l2_len);
    if (ip_checksum) {
      m.ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
      ip.hdr_checksum = 0;
    }
    tcp.checksum = be16::from_raw(rte_ipv4_phdr_cksum(&ip, m.ol_flags));
  } else {
    tcp.checksum = be16::from_raw(rte_ipv6_phdr_cksum(&header_at<rte_ipv6_hdr>(m, m.l2_len), m.ol_flags));
  }
}

}  // namespace

// Rare, or merged: what the driver says is made what Port promises.
void EthdevPort::correct(rte_mbuf& m) const noexcept {
  m.ol_flags &= ~RTE_MBUF_F_TX_OFFLOAD_MASK;  // marks of a sender on the same machine
  if (m.nb_segs > 1) drop_empty(m);
  if ((m.ol_flags & RTE_MBUF_F_RX_LRO) != 0) {
    if (!s_.receive.keeps_segment_size || m.tso_segsz >= m.pkt_len) m.tso_segsz = 0;
  } else if (s_.receive.merged_by_length && m.pkt_len > s_.max_frame) {
    m.ol_flags |= RTE_MBUF_F_RX_LRO;
    m.tso_segsz = 0;
  }
  switch (m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) {
    case RTE_MBUF_F_RX_L4_CKSUM_NONE:
      if (s_.receive.none_is_partial) return complete(m);
      m.ol_flags &= ~RTE_MBUF_F_RX_L4_CKSUM_MASK;
      return;
    case RTE_MBUF_F_RX_L4_CKSUM_BAD:
      if (!s_.receive.bad_behind_other_headers) return;
      if (const PacketView v = parse(m, Link::kEthernet); v.kind != Kind::kTcp || v.vlan_tags > 1)
        m.ol_flags &= ~RTE_MBUF_F_RX_L4_CKSUM_MASK;
      return;
    default:
      return;
  }
}

uint16_t EthdevPort::rx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept {
  const uint16_t got = rte_eth_rx_burst(s_.id, queue, pkts, n);
  for (uint16_t i = 0; i < got; ++i) {
    rte_mbuf& m = *pkts[i];
    if ((m.ol_flags & kNotPlain) != 0 || m.nb_segs > 1 || m.pkt_len > s_.max_frame) [[unlikely]] correct(m);
  }
  return got;
}

bool EthdevPort::sendable(rte_mbuf& m) const noexcept {
  if ((m.ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0) [[unlikely]] {
    prepare_to_cut(m, s_.ip_checksum);
    return true;
  }
  if ((m.ol_flags & RTE_MBUF_F_RX_LRO) != 0 && merged_datagrams(m, parse(m, Link::kEthernet))) [[unlikely]] return false;
  return m.nb_segs <= s_.max_segs && m.pkt_len <= s_.max_frame;
}

rte_mbuf* EthdevPort::fit(uint16_t queue, rte_mbuf* m) noexcept {
  Queue& q = queues_[queue];
  PktPtr pkt(m);
  if (pkt->pkt_len > s_.max_frame || merged_datagrams(*pkt, parse(*pkt, Link::kEthernet))) {
    if (!send_as_merged(queue, *pkt)) add(q.tx_too_big, 1);
    return nullptr;
  }
  if (pkt->nb_segs > s_.max_segs) {
    pkt = copy_packet(*pkt, s_.buffers.large);
    if (!pkt || pkt->nb_segs > s_.max_segs) {
      add(q.tx_errors, 1);
      return nullptr;
    }
  }
  return pkt.release();
}

void EthdevPort::send_now(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept {
  const uint16_t ready = rte_eth_tx_prepare(s_.id, queue, pkts, n);
  uint16_t done = 0;
  for (int tries = 0; done < ready && tries < kRetries; ++tries) {
    done = static_cast<uint16_t>(
        done + rte_eth_tx_burst(s_.id, queue, pkts + done, static_cast<uint16_t>(ready - done)));
  }
  if (done == n) return;
  add(queues_[queue].tx_errors, static_cast<uint64_t>(n - done));
  rte_pktmbuf_free_bulk(pkts + done, static_cast<unsigned>(n - done));
}

// What the NIC was to cut and its driver doesn't take. Its checksum was proved before it was marked.
void EthdevPort::send_resplit(uint16_t queue, rte_mbuf* m) noexcept {
  PktPtr pkt(m);
  const uint16_t size = pkt->tso_segsz;
  const auto n = static_cast<uint16_t>(std::min<uint32_t>(packets_on_wire(*pkt), UINT16_MAX));
  if ((pkt->ol_flags & RTE_MBUF_F_TX_IPV4) != 0) set_ipv4_checksum(header_at<Ipv4Header>(*pkt, pkt->l2_len));
  pkt->ol_flags &= ~RTE_MBUF_F_TX_OFFLOAD_MASK;
  const PacketView v = parse(*pkt, Link::kEthernet);
  std::array<rte_mbuf*, kMaxSplit> out;
  rte_mempool* pool = pool_for(s_.buffers, v.header_len() + size);
  if (v.kind != Kind::kTcp || n > kMaxSplit || !make_l4_checksum(*pkt, v) ||
      split(*pkt, v, size, n, CwrRule::kEverySegment, pool, out.data()) != SplitResult::kDone) {
    add(queues_[queue].tx_errors, 1);
    return;
  }
  add(queues_[queue].tx_resplit, 1);
  send_now(queue, out.data(), n);
}

// What another port merged, and nobody has split: as the segments that it was merged from.
bool EthdevPort::send_as_merged(uint16_t queue, rte_mbuf& m) noexcept {
  const bool good = (m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  if ((m.ol_flags & RTE_MBUF_F_RX_LRO) == 0 || !good) return false;
  const PacketView v = parse(m, Link::kEthernet);
  if (v.kind != Kind::kTcp && v.kind != Kind::kTcpOpaque && v.kind != Kind::kUdp) return false;
  std::array<rte_mbuf*, kMaxSplit> out;
  const uint16_t n = cut_merged(m, v.l4_off(), m.tso_segsz, s_.buffers, out.data(), kMaxSplit);
  if (n == 0 || out[0]->pkt_len > s_.max_frame) {
    rte_pktmbuf_free_bulk(out.data(), n);
    return false;
  }
  send_now(queue, out.data(), n);
  return true;
}

void EthdevPort::send_refused(uint16_t queue, rte_mbuf* m) noexcept {
  if ((m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0) return send_resplit(queue, m);
  PktPtr pkt(m);
  // Its chain may be what the driver dislikes.
  if (pkt->nb_segs > 1) pkt = copy_packet(*pkt, s_.buffers.large);
  if (!pkt) return add(queues_[queue].tx_errors, 1);
  m = pkt.release();
  send_now(queue, &m, 1);
}

uint16_t EthdevPort::tx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept {
  Queue& q = queues_[queue];
  uint16_t done = 0;
  while (done < n) {
    uint16_t end = done;
    while (end < n && sendable(*pkts[end])) ++end;
    if (end == done) {
      // The first can't go as it is: made fit it is taken up again, dropped it counts as taken.
      pkts[done] = fit(queue, pkts[done]);
      if (pkts[done] == nullptr) ++done;
      continue;
    }
    const auto want = static_cast<uint16_t>(end - done);
    const uint16_t ready = rte_eth_tx_prepare(s_.id, queue, pkts + done, want);
    const uint16_t sent = ready == 0 ? uint16_t{0} : rte_eth_tx_burst(s_.id, queue, pkts + done, ready);
    done = static_cast<uint16_t>(done + sent);
    if (sent < ready) break;
    if (ready < want) send_refused(queue, pkts[done++]);
  }
  if (done != 0) {
    add(q.tx_taken, done);
  } else if (n != 0) {
    add(q.tx_refused, 1);
  }
  return done;
}

// Some drivers look after sent packets only as they send more.
void EthdevPort::idle(uint16_t queue) noexcept { rte_eth_tx_done_cleanup(s_.id, queue, 0); }

}  // namespace pxio
