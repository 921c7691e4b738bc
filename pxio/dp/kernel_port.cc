// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/kernel_port.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "pxio/dp/checksum.h"
#include "pxio/dp/cut_merged.h"
#include "pxio/dp/finish_checksum.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"

namespace pxio {
namespace {

constexpr uint8_t kProtoSctp = 132;
constexpr uint16_t kSctpChecksum = 8;
// Errors in a row after which a receive call gives up: each has cost the kernel one packet.
constexpr int kMaxErrors = 4;

uint16_t room(const rte_mbuf& m) { return static_cast<uint16_t>(m.buf_len - m.data_off); }

// Puts back the VLAN tag that the kernel took out.
void insert_tag(rte_mbuf& m, uint16_t tpid, uint16_t tci) noexcept {
  char* start = rte_pktmbuf_prepend(&m, sizeof(VlanTag));
  std::memmove(start, start + sizeof(VlanTag), offsetof(EthernetHeader, type));
  header_at<be16>(m, offsetof(EthernetHeader, type)) = be16(tpid);
  header_at<be16>(m, sizeof(EthernetHeader)) = be16(tci);
}

void restore_tag(rte_mbuf& m, const msghdr& msg) noexcept {
  for (const cmsghdr* c = CMSG_FIRSTHDR(&msg); c != nullptr;
       c = CMSG_NXTHDR(const_cast<msghdr*>(&msg), const_cast<cmsghdr*>(c))) {
    if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
    tpacket_auxdata aux;
    std::memcpy(&aux, CMSG_DATA(c), sizeof aux);
    if ((aux.tp_status & TP_STATUS_VLAN_VALID) == 0) return;
    const bool known = (aux.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
    insert_tag(m, known ? aux.tp_vlan_tpid : kEtherVlan, aux.tp_vlan_tci);
    return;
  }
}

enum class Arrived : uint8_t {
  kWhole,     // to be passed on
  kInTunnel,  // what the kernel merged in a tunnel: to be cut first
  kUnusable,  // can't be passed on
};

// Makes the checksum complete and marks what the kernel knows of the packet.
Arrived set_state(rte_mbuf& m, const VnetHeader& h) noexcept {
  const bool partial = (h.flags & VnetHeader::kNeedsChecksum) != 0;
  const bool valid = (h.flags & VnetHeader::kDataValid) != 0;
  const uint8_t type = h.gso_type & static_cast<uint8_t>(~VnetHeader::kGsoEcn);
  const bool merged = type != VnetHeader::kGsoNone;
  if (!partial && !merged) [[likely]] {
    if (valid) m.ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
    return Arrived::kWhole;
  }
  // UFO, of kernels before 4.14, isn't datagrams but the fragments of one.
  if (merged && type != VnetHeader::kGsoTcp4 && type != VnetHeader::kGsoTcp6 && type != VnetHeader::kGsoUdp)
    return Arrived::kUnusable;
  const PacketView v = parse(m, Link::kEthernet);
  // Inside a tunnel it's another header than the one that others look at.
  const bool outer = !partial || (v.version != 0 && v.l4_off() == h.csum_start);
  if (!outer && merged) return Arrived::kInTunnel;
  if (partial) {
    const bool sctp = outer && v.proto == kProtoSctp && h.csum_offset == kSctpChecksum;
    if (!(sctp ? finish_crc32c(m, h.csum_start) : finish_checksum(m, h.csum_start, h.csum_offset)))
      return Arrived::kUnusable;
  }
  if (merged) {
    if (l4_checksum(m, v) == nullptr) return Arrived::kUnusable;
    // Merged as a list: the checksum is still that of the first.
    if (!partial && (!valid || !make_l4_checksum(m, v))) return Arrived::kUnusable;
    m.ol_flags |= RTE_MBUF_F_RX_LRO;
    m.tso_segsz = h.gso_size < m.pkt_len ? h.gso_size : 0;
  }
  if (outer) m.ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  return Arrived::kWhole;
}

// Describes a packet that leaves as several, so that the kernel takes it apart: one that arrived merged,
// or that is marked for it.
void describe_segments(rte_mbuf& m, VnetHeader& h, uint16_t mtu) noexcept {
  const PacketView v = parse(m, Link::kEthernet);
  be16* field = l4_checksum(m, v);
  if (field == nullptr || v.l2_len + v.ip_len != m.pkt_len) return;
  const bool udp = v.kind == Kind::kUdp;
  const uint32_t l4_len = udp ? sizeof(UdpHeader) : header_at<TcpHeader>(m, v.l4_off()).len();
  if (v.ip_len <= v.l3_len + l4_len + m.tso_segsz) return;
  // TCP that came merged is as good in a larger packet; a datagram isn't.
  if (!udp && v.ip_len <= mtu && (m.ol_flags & RTE_MBUF_F_TX_TCP_SEG) == 0) return;
  // The mark tells that it has been done: the port may not have taken the packet the first time.
  if ((m.ol_flags & RTE_MBUF_F_TX_TCP_CKSUM) == 0) {
    const bool good = (m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD;
    if (good && v.why == Opaque::kNone) {
      *field = be16::from_raw(pseudo_header_sum(m, v));
    } else {
      // What makes the kernel arrive at the checksum that is there: a bad one stays bad.
      const auto sent = static_cast<uint16_t>(~field->raw());
      const uint16_t all = sum_packet(m, v.l4_off(), v.ip_len - v.l3_len);
      const uint16_t rest = fold(uint64_t{all} + sent);
      *field = be16::from_raw(fold(uint64_t{sent} + static_cast<uint16_t>(~rest)));
    }
    m.ol_flags |= RTE_MBUF_F_TX_TCP_CKSUM;
  }
  h.flags = VnetHeader::kNeedsChecksum;
  h.csum_start = static_cast<uint16_t>(v.l4_off());
  h.gso_size = m.tso_segsz;
  h.hdr_len = static_cast<uint16_t>(v.l4_off() + l4_len);
  if (udp) {
    h.csum_offset = offsetof(UdpHeader, checksum);
    h.gso_type = VnetHeader::kGsoUdp;
  } else {
    h.csum_offset = offsetof(TcpHeader, checksum);
    h.gso_type = v.version == 4 ? VnetHeader::kGsoTcp4 : VnetHeader::kGsoTcp6;
    // CWR on the first segment alone.
    if ((header_at<TcpHeader>(m, v.l4_off()).flags() & kCwr) != 0) h.gso_type |= VnetHeader::kGsoEcn;
  }
}

}  // namespace

KernelPort::Queue::~Queue() {
  for (Slot& s : slots) {
    if (s.head != nullptr) rte_pktmbuf_free(s.head);
    rte_pktmbuf_free_bulk(s.tails.data(), s.n_tails);
  }
  rte_pktmbuf_free_bulk(waiting.data() + waiting_at, waiting_n - waiting_at);
}

uint32_t KernelPort::large_posted(Buffers buffers) {
  const uint32_t small = room_of(buffers.small), large = room_of(buffers.large);
  return kBurst * std::min<uint32_t>((kMaxFrame - small + large - 1) / large, kMaxTails);
}

void KernelPort::Queue::post(uint16_t slot) noexcept {
  Slot& s = slots[slot];
  msghdr& msg = rx_msgs[slot].msg_hdr;
  s.iov[0] = {&s.hdr, sizeof s.hdr};
  s.iov[1] = {data(*s.head), room(*s.head)};
  for (uint16_t i = 0; i < s.n_tails; ++i) s.iov[i + 2u] = {data(*s.tails[i]), room(*s.tails[i])};
  msg.msg_iov = s.iov.data();
  msg.msg_iovlen = s.n_tails + 2u;
  msg.msg_name = &s.from;
  msg.msg_namelen = sizeof s.from;
  msg.msg_control = s.control.data();
  msg.msg_controllen = s.control.size();
  msg.msg_flags = 0;
}

uint16_t KernelPort::Queue::refill(uint16_t n) noexcept {
  if (lacking == 0) return n;
  std::array<rte_mbuf*, kBurst> fresh;
  uint16_t heads = 0, have = 0;
  for (uint16_t i = 0; i < lacking; ++i) heads = static_cast<uint16_t>(heads + (slots[i].head == nullptr));
  if (rte_pktmbuf_alloc_bulk(buffers.small, fresh.data(), heads) == 0) {
    have = heads;
  } else {
    while (have < heads && (fresh[have] = rte_pktmbuf_alloc(buffers.small)) != nullptr) ++have;
  }
  uint16_t used = 0, still = 0, ready = lacking;
  for (uint16_t i = 0; i < lacking; ++i) {
    Slot& s = slots[i];
    if (s.head == nullptr && used < have) s.head = fresh[used++];
    while (s.n_tails < want_tails) {
      rte_mbuf* m = rte_pktmbuf_alloc(buffers.large);
      if (m == nullptr) break;
      s.tails[s.n_tails++] = m;
    }
    if (s.head == nullptr) {
      ready = std::min(ready, i);
      still = static_cast<uint16_t>(i + 1);
      continue;
    }
    // With fewer large buffers ordinary frames still arrive.
    if (s.n_tails < want_tails) still = static_cast<uint16_t>(i + 1);
    post(i);
  }
  const bool all = ready == lacking;
  lacking = still;
  return all ? n : std::min(n, ready);
}

// Takes the buffers that the packet fills.
rte_mbuf* KernelPort::Queue::unchain(Slot& s, uint32_t len) noexcept {
  rte_mbuf* head = std::exchange(s.head, nullptr);
  head->pkt_len = len;
  rte_mbuf* last = head;
  last->data_len = static_cast<uint16_t>(std::min<uint32_t>(len, room(*head)));
  uint32_t left = len - last->data_len;
  uint16_t n = 0;
  for (; left != 0; ++n) {
    rte_mbuf* m = s.tails[n];
    m->data_len = static_cast<uint16_t>(std::min<uint32_t>(left, room(*m)));
    m->pkt_len = m->data_len;
    left -= m->data_len;
    last->next = m;
    last = m;
  }
  head->nb_segs = static_cast<uint16_t>(n + 1);
  s.n_tails = static_cast<uint16_t>(s.n_tails - n);
  std::copy_n(s.tails.begin() + n, s.n_tails, s.tails.begin());
  return head;
}

// Puts the packet of a slot that the kernel has filled, or what it was merged from, behind those that wait; none
// where there is nothing to pass on, and its buffers stay in the slot then.
void KernelPort::Queue::take(uint16_t slot) noexcept {
  Slot& s = slots[slot];
  const mmsghdr& msg = rx_msgs[slot];
  if (s.from.sll_pkttype == PACKET_OUTGOING) return;
  if ((msg.msg_hdr.msg_flags & MSG_TRUNC) != 0) {
    (s.n_tails < want_tails ? rx_no_buffer : rx_truncated).add(1);
    return;
  }
  if (msg.msg_len < sizeof s.hdr + sizeof(EthernetHeader)) {
    rx_errors.add(1);
    return;
  }
  PktPtr pkt(unchain(s, msg.msg_len - static_cast<uint32_t>(sizeof s.hdr)));
  const Arrived arrived = set_state(*pkt, s.hdr);
  uint16_t n = 0;
  if (arrived == Arrived::kWhole) [[likely]] {
    waiting[waiting_n] = pkt.release();
    n = 1;
  } else if (arrived == Arrived::kInTunnel) {
    const auto most = static_cast<uint16_t>(waiting.size() - waiting_n - kBurst);
    n = cut_merged(*pkt, s.hdr.csum_start, s.hdr.gso_size, buffers, &waiting[waiting_n], most);
  }
  if (n == 0) rx_errors.add(1);
  for (; n != 0; --n) restore_tag(*waiting[waiting_n++], msg.msg_hdr);
}

// The first of those that wait.
uint16_t KernelPort::Queue::hand_out(rte_mbuf** pkts, uint16_t n) noexcept {
  n = std::min<uint16_t>(n, static_cast<uint16_t>(waiting_n - waiting_at));
  uint64_t bytes = 0;
  for (uint16_t i = 0; i < n; ++i) {
    pkts[i] = waiting[waiting_at + i];
    bytes += pkts[i]->pkt_len;
  }
  waiting_at = static_cast<uint16_t>(waiting_at + n);
  if (waiting_at == waiting_n) waiting_at = waiting_n = 0;
  rx_pkts.add(n);
  rx_bytes.add(bytes);
  return n;
}

uint16_t KernelPort::rx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept {
  Queue& q = *queues_[queue];
  if (q.waiting_n != 0) [[unlikely]] return q.hand_out(pkts, n);
  const uint16_t ready = q.refill(std::min(n, kBurst));
  if (ready == 0) return 0;
  int got = -1;
  for (int errors = 0; got < 0 && errors < kMaxErrors; ++errors) {
    got = recvmmsg(q.fd.get(), q.rx_msgs.data(), ready, MSG_DONTWAIT, nullptr);
    if (got >= 0) break;
    // ENETDOWN comes once; packets come again when the interface is up again.
    if (errno == EAGAIN || errno == EINTR || errno == ENETDOWN) return 0;
    // A kind of merged packet that virtio's header can't describe: the kernel has thrown it away.
    q.rx_errors.add(1);
  }
  for (int i = 0; i < got; ++i) q.take(static_cast<uint16_t>(i));
  // Those not consumed too: the kernel has changed their lengths.
  if (got > 0) q.lacking = std::max(q.lacking, static_cast<uint16_t>(got));
  return q.hand_out(pkts, n);
}

uint16_t KernelPort::Queue::build(rte_mbuf** pkts, uint16_t n) noexcept {
  uint16_t msgs = 0;
  size_t iovs = 0;
  for (; msgs < std::min(n, kTxBatch); ++msgs) {
    rte_mbuf& m = *pkts[msgs];
    if (m.nb_segs >= kTxIovecs || iovs + m.nb_segs + 1 > tx_iov.size()) break;
    VnetHeader& h = tx_hdrs[msgs];
    h = {};
    // As much as the kernel puts where receivers look for headers.
    h.hdr_len = std::min<uint16_t>(m.data_len, 128);
    if ((m.ol_flags & (RTE_MBUF_F_RX_LRO | RTE_MBUF_F_TX_TCP_SEG)) != 0 && m.tso_segsz != 0) [[unlikely]]
      describe_segments(m, h, mtu);
    msghdr& msg = tx_msgs[msgs].msg_hdr;
    msg.msg_iov = &tx_iov[iovs];
    tx_iov[iovs++] = {&h, sizeof h};
    for (rte_mbuf* seg = &m; seg != nullptr; seg = seg->next) tx_iov[iovs++] = {data(*seg), seg->data_len};
    msg.msg_iovlen = m.nb_segs + 1u;
  }
  return msgs;
}

// Through the queueing discipline, not around it (PACKET_QDISC_BYPASS): bypassing loses every GSO packet
// that the driver can't segment, and every packet while the driver's ring is full. Order is kept: one
// worker, tied to its core, has one transmit queue.
uint16_t KernelPort::tx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept {
  Queue& q = *queues_[queue];
  uint16_t done = 0;
  const auto drop = [&](uint16_t count, Count& why) {
    rte_pktmbuf_free_bulk(pkts + done, count);
    why.add(count);
    done = static_cast<uint16_t>(done + count);
  };
  bool failed = false;
  while (done < n) {
    const uint16_t built = q.build(pkts + done, static_cast<uint16_t>(n - done));
    if (built == 0) {
      drop(1, q.tx_errors);  // more buffers than the kernel takes
      continue;
    }
    const int sent = sendmmsg(q.fd.get(), q.tx_msgs.data(), built, MSG_DONTWAIT);
    if (sent > 0) {
      uint64_t bytes = 0, on_wire = 0;
      for (int i = 0; i < sent; ++i) {
        const rte_mbuf& m = *pkts[done + i];
        const uint32_t as = packets_on_wire(m);
        on_wire += as;
        bytes += m.pkt_len + (as == 1 ? 0 : uint64_t{as - 1} * marked_headers(m));
      }
      q.tx_pkts.add(on_wire);
      q.tx_bytes.add(bytes);
      rte_pktmbuf_free_bulk(pkts + done, static_cast<unsigned>(sent));
      done = static_cast<uint16_t>(done + sent);
      failed = false;
      q.no_room = 0;
      continue;
    }
    const int error = errno;
    // The queue behind it is full, or whoever gets it refuses this very packet (a veth whose peer has a
    // smaller MTU): one that goes on failing mustn't keep back those behind it.
    if (error == ENOBUFS && ++q.no_room >= kPatience) {
      q.no_room = 0;
      drop(1, q.tx_errors);
      continue;
    }
    // Full: the socket's share of memory, or the queue behind it.
    if (error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == EINTR) break;
    // The error may be an old one, left behind by receiving: only the second in a row is this packet's.
    if (!std::exchange(failed, true)) continue;
    failed = false;
    if (error == ENETDOWN || error == ENXIO || error == ENODEV) {
      drop(static_cast<uint16_t>(n - done), q.tx_down);
    } else {
      drop(1, error == EMSGSIZE ? q.tx_too_big : q.tx_errors);
    }
  }
  if (done != 0) {
    q.tx_taken.add(done);
  } else if (n != 0) {
    q.tx_refused.add(1);
  }
  return done;
}

}  // namespace pxio
