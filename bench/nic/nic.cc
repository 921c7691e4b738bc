// SPDX-License-Identifier: BSD-3-Clause
#include "bench/nic/nic.h"

#include <algorithm>
#include <cstring>

#include "bench/nic/cut.h"

namespace softnic {

using namespace pxio;

namespace {

constexpr uint16_t kMostQueues = 16;

// The same for both directions of a flow: receive-side scaling with a symmetric key. Whoever looks
// at a packet's first buffer alone sees its headers, not all that they speak of.
uint32_t flow_hash(Frame start) {
  const auto link = link_layer(start);
  if (!link) return 0;
  uint32_t h = 0;
  const auto add = [&](size_t offset, size_t words) {
    for (size_t i = 0; i < words && offset + 4 * i + 4 <= start.size(); ++i)
      h += at<be32>(start, offset + 4 * i).host();
  };
  const auto add_ports = [&](size_t l4) {
    if (l4 + sizeof(TcpHeader) > start.size()) return;
    const auto& tcp = at<TcpHeader>(start, l4);
    h += tcp.src_port.host() + uint32_t{tcp.dst_port.host()};
  };
  if (link->type == kEtherIpv4 && link->len + kIpv4HeaderLen <= start.size()) {
    const auto& ip = at<Ipv4Header>(start, link->len);
    add(link->len + offsetof(Ipv4Header, src), 2);
    if (ip.proto == kProtoTcp && (ip.frag.host() & (kIpMf | kIpOffsetMask)) == 0)
      add_ports(size_t{link->len} + ip.ihl_bytes());
  } else if (link->type == kEtherIpv6 && link->len + kIpv6HeaderLen <= start.size()) {
    add(link->len + offsetof(Ipv6Header, src), 8);
    if (at<Ipv6Header>(start, link->len).next == kProtoTcp) add_ports(link->len + kIpv6HeaderLen);
  }
  return (h * 0x9e3779b1u) >> 16;
}

}  // namespace

Nic::Nic(const NicOptions& options, VhostPort& driver, rte_mempool* pool, ToWire to_wire)
    : options_(options),
      driver_(driver),
      to_wire_(std::move(to_wire)),
      waiting_(kMostQueues),
      lro_(options.lro, pool, counters_, [this](rte_mbuf* m) { to_driver(m); }),
      scratch_(kLargestFrame) {}

Nic::~Nic() {
  for (const auto& q : waiting_) {
    for (rte_mbuf* m : q) rte_pktmbuf_free(m);
  }
}

bool Nic::ready() const {
  return std::all_of(waiting_.begin(), waiting_.end(), [](const auto& q) { return q.empty(); });
}

bool Nic::above_mtu(Frame frame) const {
  const auto link = link_layer(frame);
  return link && frame.size() - link->len > options_.mtu;
}

void Nic::from_wire(Frame frame, Nanos now) {
  ++counters_.wire_in;
  receive(frame, now);
}

void Nic::from_wire_uncut(Frame packet, uint16_t segsz, Nanos now) {
  ++counters_.wire_in;
  ++counters_.wire_in_gso;
  const uint32_t n = cut(packet, segsz, [&](Frame f) { receive(f, now); });
  counters_.wire_in_cut += std::max(n, 1u);
  if (n == 0) ++counters_.rx_bad;
}

void Nic::receive(Frame frame, Nanos now) {
  if (above_mtu(frame)) {
    ++counters_.rx_bad;
    return;
  }
  lro_.receive(frame, driver_.lro(), now);
}

void Nic::to_driver(rte_mbuf* m) {
  const uint16_t queues = driver_.queues();
  if (queues == 0) {
    ++counters_.host_out_down;
    rte_pktmbuf_free(m);
    return;
  }
  const uint32_t q =
      queues == 1 ? 0 : flow_hash({rte_pktmbuf_mtod(m, uint8_t*), m->data_len}) % queues;
  waiting_[q].push_back(m);
}

bool Nic::deliver() {
  bool any = false;
  for (size_t q = 0; q < waiting_.size(); ++q) {
    auto& w = waiting_[q];
    if (w.empty()) continue;
    size_t done = 0;
    if (q >= driver_.queues()) {  // the driver went away
      counters_.host_out_down += w.size();
      rte_pktmbuf_free_bulk(w.data(), static_cast<unsigned>(w.size()));
      done = w.size();
    }
    while (done < w.size()) {
      const auto n = static_cast<uint16_t>(std::min<size_t>(kBurst, w.size() - done));
      const uint16_t sent = driver_.send(static_cast<uint16_t>(q), w.data() + done, n);
      counters_.host_out += sent;
      done += sent;
      if (sent < n) {
        ++counters_.host_full;
        break;
      }
    }
    any |= done != 0;
    w.erase(w.begin(), w.begin() + static_cast<std::ptrdiff_t>(done));
  }
  return any;
}

bool Nic::poll(Nanos now) {
  driver_.refresh(now);
  lro_.expire(now);
  bool any = deliver();
  rte_mbuf* pkts[kBurst];
  for (uint16_t q = 0; q < driver_.queues(); ++q) {
    const uint16_t n = driver_.receive(q, pkts, kBurst);
    for (uint16_t i = 0; i < n; ++i) from_driver(*pkts[i]);
    rte_pktmbuf_free_bulk(pkts, n);
    any |= n != 0;
  }
  return any;
}

void Nic::drain() {
  lro_.flush();
  deliver();
  for (auto& w : waiting_) {
    counters_.host_out_down += w.size();
    rte_pktmbuf_free_bulk(w.data(), static_cast<unsigned>(w.size()));
    w.clear();
  }
}

void Nic::from_driver(const rte_mbuf& m) {
  ++counters_.host_in;
  if (m.pkt_len > scratch_.size()) {
    ++counters_.wire_too_big;
    return;
  }
  const MutableFrame frame(scratch_.data(), m.pkt_len);
  const void* bytes = rte_pktmbuf_read(&m, 0, m.pkt_len, frame.data());
  if (bytes != frame.data()) std::memcpy(frame.data(), bytes, m.pkt_len);
  if ((m.ol_flags & RTE_MBUF_F_RX_LRO) != 0) {
    ++counters_.tso_in;
    const uint32_t n = cut(frame, m.tso_segsz, [this](Frame f) { to_wire(f); });
    counters_.tso_out += n;
    if (n == 0) ++counters_.tso_bad;
    return;
  }
  if ((m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_NONE &&
      complete_checksum(frame))
    ++counters_.checksums;
  to_wire(frame);
}

void Nic::to_wire(Frame frame) {
  if (above_mtu(frame)) {
    ++counters_.wire_too_big;
  } else if (to_wire_(frame)) {
    ++counters_.wire_out;
  } else {
    ++counters_.wire_refused;
  }
}

}  // namespace softnic
