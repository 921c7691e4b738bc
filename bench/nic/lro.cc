// SPDX-License-Identifier: BSD-3-Clause
#include "bench/nic/lro.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "pxio/dp/checksum.h"

namespace softnic {

using namespace pxio;

namespace {

// Appends bytes behind `last`, the chain's last buffer, which it moves on. False: no buffer is
// left, and the chain is as it was.
bool append_bytes(rte_mbuf& head, rte_mbuf*& last, Frame bytes, rte_mempool* pool) {
  rte_mbuf* const before = last;
  const uint16_t had = last->data_len;
  size_t done = 0;
  while (done < bytes.size()) {
    if (rte_pktmbuf_tailroom(last) == 0) {
      rte_mbuf* more = rte_pktmbuf_alloc(pool);
      if (more == nullptr) {
        rte_pktmbuf_free(before->next);
        before->next = nullptr;
        before->data_len = had;
        last = before;
        return false;
      }
      last->next = more;
      last = more;
    }
    const auto n =
        static_cast<uint16_t>(std::min<size_t>(bytes.size() - done, rte_pktmbuf_tailroom(last)));
    std::memcpy(rte_pktmbuf_mtod_offset(last, uint8_t*, last->data_len), bytes.data() + done, n);
    last->data_len = static_cast<uint16_t>(last->data_len + n);
    done += n;
  }
  for (const rte_mbuf* m = before->next; m != nullptr; m = m->next) ++head.nb_segs;
  head.pkt_len += static_cast<uint32_t>(bytes.size());
  return true;
}

MutableFrame headers_of(const rte_mbuf& m) { return {rte_pktmbuf_mtod(&m, uint8_t*), m.data_len}; }

bool same(Frame a, Frame b, size_t from, size_t len) {
  return std::memcmp(a.data() + from, b.data() + from, len) == 0;
}

// Addresses of all layers, tags and ports.
bool same_flow(Frame a, const TcpFrame& t, Frame b, const TcpFrame& u) {
  if (t.version != u.version || t.l2_len != u.l2_len || !same(a, b, 0, t.l2_len)) return false;
  const size_t from =
      t.l2_len + (t.version == 4 ? offsetof(Ipv4Header, src) : offsetof(Ipv6Header, src));
  return same(a, b, from, t.version == 4 ? 8 : 32) && same(a, b, t.l4_off(), 4);
}

// What a receiver would see of the others' IP headers.
bool same_ip(Frame a, Frame b, const TcpFrame& t) {
  if (t.version == 6)
    return same(a, b, t.l2_len, 4) && same(a, b, t.l2_len + offsetof(Ipv6Header, hop_limit), 1);
  const auto &x = at<Ipv4Header>(a, t.l2_len), &y = at<Ipv4Header>(b, t.l2_len);
  return x.tos == y.tos && x.ttl == y.ttl && x.frag == y.frag;
}

// No options, or timestamps as everyone sends them (RFC 7323, appendix A).
bool plain_options(Frame frame, const TcpFrame& t) {
  constexpr uint8_t kTimestamps[] = {1, 1, 8, 10};
  return t.l4_len == kTcpHeaderLen ||
         (t.l4_len == kTcpHeaderLen + 12 && std::memcmp(frame.data() + t.l4_off() + kTcpHeaderLen,
                                                        kTimestamps, sizeof kTimestamps) == 0);
}

}  // namespace

rte_mbuf* to_packet(Frame frame, rte_mempool* pool) {
  rte_mbuf* m = rte_pktmbuf_alloc(pool);
  if (m == nullptr) return nullptr;
  rte_mbuf* last = m;
  if (append_bytes(*m, last, frame, pool)) return m;
  rte_pktmbuf_free(m);
  return nullptr;
}

Lro::Lro(const LroOptions& options, rte_mempool* pool, Counters& counters, Out out)
    : options_(options),
      pool_(pool),
      counters_(counters),
      out_(std::move(out)),
      sessions_(options.contexts) {}

Lro::~Lro() {
  for (const Session& s : sessions_) rte_pktmbuf_free(s.head);
}

Lro::Session* Lro::find(Frame frame, const TcpFrame& t) {
  if (used_ == 0) return nullptr;
  for (Session& s : sessions_) {
    if (s.head != nullptr && same_flow(headers_of(*s.head), s.first, frame, t)) return &s;
  }
  return nullptr;
}

Lro::Session* Lro::free_one() {
  for (Session& s : sessions_) {
    if (s.head == nullptr) return &s;
  }
  return nullptr;
}

bool Lro::mergeable(Frame frame, const TcpFrame& t) const {
  const unsigned ends = options_.push == LroOptions::Push::kEnd ? kPsh : 0u;
  return (t.flags & ~ends) == kAck && t.payload_len != 0 && t.trailer == 0 && t.tags <= 1 &&
         plain_options(frame, t) && t.ip_len() <= options_.max_bytes && checksums_ok(frame, t);
}

// Whether the segment is the session's next; ends the session where it isn't.
bool Lro::goes_on(Session& s, Frame frame, const TcpFrame& t) {
  if (t.seq != s.next_seq) {
    end(s, counters_.lro_end_gap);
  } else if (t.payload_len > s.first.payload_len || t.l4_len != s.first.l4_len ||
             !same_ip(headers_of(*s.head), frame, t)) {
    end(s, counters_.lro_end_other);
  } else if (s.head->pkt_len - s.first.l2_len + t.payload_len > options_.max_bytes) {
    end(s, counters_.lro_end_full);
  } else {
    return true;
  }
  return false;
}

void Lro::receive(Frame frame, bool may_merge, Nanos now) {
  if (!options_.on || !may_merge) {
    if (used_ != 0) flush();  // the driver has just turned it off
    return pass(frame);
  }
  const auto t = parse_tcp(frame);
  if (!t) return pass(frame);
  Session* s = find(frame, *t);
  if (!mergeable(frame, *t)) {
    if (s != nullptr)
      end(*s, (t->flags & kPsh) != 0 ? counters_.lro_end_push : counters_.lro_end_other);
    return pass(frame);
  }
  if (s != nullptr && goes_on(*s, frame, *t)) return take(*s, frame, *t);
  begin(frame, *t, now);
}

void Lro::begin(Frame frame, const TcpFrame& t, Nanos now) {
  // Nothing can follow it.
  if ((t.flags & kPsh) != 0 || t.ip_len() == options_.max_bytes) return pass(frame);
  Session* s = free_one();
  if (s == nullptr) {
    ++counters_.lro_no_context;
    return pass(frame);
  }
  rte_mbuf* m = to_packet(frame, pool_);
  if (m == nullptr) {
    ++counters_.host_no_buffer;
    return;
  }
  *s = {m, rte_pktmbuf_lastseg(m), t, t.seq + t.payload_len, 1, now};
  ++used_;
  counters_.lro_most_contexts = std::max<uint64_t>(counters_.lro_most_contexts, used_);
}

void Lro::take(Session& s, Frame frame, const TcpFrame& t) {
  if (!append_bytes(*s.head, s.last, frame.subspan(t.header_len()), pool_)) {
    ++counters_.host_no_buffer;
    return end(s, counters_.lro_end_other);
  }
  auto& kept = at<TcpHeader>(headers_of(*s.head), t.l4_off());
  const auto& tcp = at<TcpHeader>(frame, t.l4_off());
  kept.ack = tcp.ack;
  kept.window = tcp.window;
  kept.off_flags = tcp.off_flags;
  s.next_seq += t.payload_len;
  ++s.segments;
  if ((t.flags & kPsh) != 0) {
    end(s, counters_.lro_end_push);
  } else if (t.payload_len < s.first.payload_len) {
    end(s, counters_.lro_end_short);
  } else if (s.head->pkt_len - s.first.l2_len + s.first.payload_len > options_.max_bytes) {
    end(s, counters_.lro_end_full);
  }
}

void Lro::end(Session& s, uint64_t& why) {
  ++why;
  rte_mbuf* m = std::exchange(s.head, nullptr);
  --used_;
  if (s.segments == 1) {
    ++counters_.lro_single;
    return out_(m);
  }
  ++counters_.lro_out;
  counters_.lro_in += s.segments;
  const TcpFrame& t = s.first;
  const MutableFrame headers = headers_of(*m);
  m->ol_flags = RTE_MBUF_F_TX_TCP_SEG;
  const uint32_t ip_len = m->pkt_len - t.l2_len;
  if (t.version == 4) {
    m->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
    auto& ip = at<Ipv4Header>(headers, t.l2_len);
    ip.total_len = be16(static_cast<uint16_t>(ip_len));
    set_ipv4_checksum(ip);
  } else {
    m->ol_flags |= RTE_MBUF_F_TX_IPV6;
    at<Ipv6Header>(headers, t.l2_len).payload_len =
        be16(static_cast<uint16_t>(ip_len - kIpv6HeaderLen));
  }
  m->l2_len = t.l2_len;
  m->l3_len = t.l3_len;
  m->l4_len = t.l4_len;
  m->tso_segsz = static_cast<uint16_t>(t.payload_len);
  out_(m);
}

void Lro::expire(Nanos now) {
  if (used_ == 0) return;
  for (Session& s : sessions_) {
    if (s.head != nullptr && now - s.begun >= options_.timeout) end(s, counters_.lro_end_timer);
  }
}

void Lro::flush() {
  for (Session& s : sessions_) {
    if (s.head != nullptr) end(s, counters_.lro_end_timer);
  }
}

void Lro::pass(Frame frame) {
  rte_mbuf* m = to_packet(frame, pool_);
  if (m == nullptr) {
    ++counters_.host_no_buffer;
  } else {
    out_(m);
  }
}

}  // namespace softnic
