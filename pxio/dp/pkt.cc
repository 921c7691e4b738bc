// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/pkt.h"

#include <algorithm>
#include <cstring>

namespace pxio {

bool pull(rte_mbuf& m, uint16_t len) noexcept {
  if (m.data_len >= len) return true;
  if (len > m.pkt_len || rte_mbuf_refcnt_read(&m) != 1 || !RTE_MBUF_DIRECT(&m)) return false;
  if (rte_pktmbuf_tailroom(&m) < len - m.data_len) return false;
  while (m.data_len < len) {
    rte_mbuf* next = m.next;
    const auto n = std::min<uint16_t>(static_cast<uint16_t>(len - m.data_len), next->data_len);
    std::memcpy(data(m) + m.data_len, data(*next), n);
    m.data_len = static_cast<uint16_t>(m.data_len + n);
    next->data_off = static_cast<uint16_t>(next->data_off + n);
    next->data_len = static_cast<uint16_t>(next->data_len - n);
    if (next->data_len == 0) {
      m.next = next->next;
      m.nb_segs--;
      next->next = nullptr;
      rte_pktmbuf_free_seg(next);
    }
  }
  return true;
}

void trim_longer(rte_mbuf& m, uint32_t len) noexcept {
  m.pkt_len = len;
  rte_mbuf* seg = &m;
  uint16_t segs = 1;
  while (seg->data_len < len) {
    len -= seg->data_len;
    seg = seg->next;
    ++segs;
  }
  seg->data_len = static_cast<uint16_t>(len);
  rte_mbuf* rest = std::exchange(seg->next, nullptr);
  m.nb_segs = segs;
  while (rest != nullptr) {
    rte_mbuf* next = std::exchange(rest->next, nullptr);
    rest->nb_segs = 1;
    rte_pktmbuf_free_seg(rest);
    rest = next;
  }
}

void erase(rte_mbuf& m, uint16_t at, uint32_t len) noexcept {
  m.pkt_len -= len;
  if (len < uint32_t{m.data_len} - at) {
    std::memmove(data(m) + len, data(m), at);
    m.data_off = static_cast<uint16_t>(m.data_off + len);
    m.data_len = static_cast<uint16_t>(m.data_len - len);
    return;
  }
  len -= uint32_t{m.data_len} - at;
  m.data_len = at;
  rte_mbuf* next = m.next;
  for (; len >= next->data_len; next = m.next) {
    len -= next->data_len;
    m.next = std::exchange(next->next, nullptr);
    m.nb_segs--;
    next->nb_segs = 1;
    rte_pktmbuf_free_seg(next);
  }
  next->data_off = static_cast<uint16_t>(next->data_off + len);
  next->data_len = static_cast<uint16_t>(next->data_len - len);
}

rte_mbuf* hand_over_head(rte_mbuf* m) noexcept {
  // Drivers reject empty segments: the next one becomes the head.
  rte_mbuf* head = std::exchange(m->next, nullptr);
  head->pkt_len = m->pkt_len;
  head->nb_segs = static_cast<uint16_t>(m->nb_segs - 1);
  m->nb_segs = 1;
  rte_pktmbuf_free_seg(m);
  return head;
}

void drop_empty(rte_mbuf& m) noexcept {
  for (rte_mbuf* seg = &m; seg->next != nullptr;) {
    rte_mbuf* next = seg->next;
    if (next->data_len != 0) {
      seg = next;
      continue;
    }
    seg->next = std::exchange(next->next, nullptr);
    m.nb_segs--;
    next->nb_segs = 1;
    rte_pktmbuf_free_seg(next);
  }
}

PktPtr copy_packet(const rte_mbuf& m, rte_mempool* pool) noexcept {
  return PktPtr(rte_pktmbuf_copy(&m, pool, 0, UINT32_MAX));
}

PktPtr copy_part(const rte_mbuf& m, uint32_t offset, uint32_t len, rte_mempool* pool) noexcept {
  PktPtr p(rte_pktmbuf_alloc(pool));
  if (!p) return p;
  const rte_mbuf* seg = &m;
  for (; offset > seg->data_len; seg = seg->next) offset -= seg->data_len;
  rte_mbuf* at = p.get();
  while (len != 0) {
    if (rte_pktmbuf_tailroom(at) == 0) {
      at->next = rte_pktmbuf_alloc(pool);
      if (at->next == nullptr) return PktPtr();
      at = at->next;
      p->nb_segs++;
    }
    if (offset == seg->data_len) {
      seg = seg->next;
      offset = 0;
      continue;
    }
    const auto n = static_cast<uint16_t>(
        std::min({len, uint32_t{seg->data_len} - offset, uint32_t{rte_pktmbuf_tailroom(at)}}));
    std::memcpy(data(*at) + at->data_len, data(*seg) + offset, n);
    at->data_len = static_cast<uint16_t>(at->data_len + n);
    p->pkt_len += n;
    offset += n;
    len -= n;
  }
  return p;
}

PktPtr share_part(rte_mbuf& m, uint32_t offset, uint32_t len, rte_mempool* pool) noexcept {
  rte_mbuf* seg = &m;
  for (; offset >= seg->data_len; seg = seg->next) offset -= seg->data_len;
  PktPtr head;
  rte_mbuf* last = nullptr;
  const uint32_t total = len;
  for (; len != 0; seg = seg->next, offset = 0) {
    const auto n = static_cast<uint16_t>(std::min(len, uint32_t{seg->data_len} - offset));
    if (n == 0) continue;
    rte_mbuf* part = rte_pktmbuf_alloc(pool);
    if (part == nullptr) return PktPtr();
    rte_pktmbuf_attach(part, seg);
    part->ol_flags &= RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;
    part->data_off = static_cast<uint16_t>(seg->data_off + offset);
    part->data_len = n;
    part->pkt_len = n;
    if (!head) {
      head = PktPtr(part);
    } else {
      last->next = part;
      head->nb_segs++;
    }
    last = part;
    len -= n;
  }
  head->pkt_len = total;
  return head;
}

PktPtr new_packet(rte_mempool* pool) noexcept { return PktPtr(rte_pktmbuf_alloc(pool)); }

bool new_packets(rte_mempool* pool, rte_mbuf** out, uint16_t n) noexcept {
  return rte_pktmbuf_alloc_bulk(pool, out, n) == 0;
}

}  // namespace pxio
