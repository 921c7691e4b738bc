// SPDX-License-Identifier: BSD-3-Clause
// Packets and who owns them. A PktPtr owns one rte_mbuf chain; taking it by value consumes the packet,
// `const rte_mbuf&` looks at it, `rte_mbuf&` edits it. Each packet ends in exactly one of three ways:
// transmitted, held, or freed under a drop counter. Raw mbuf calls that free, chain or trim stand in
// this file alone. Worker threads.
#pragma once
#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "pxio/dp/wire.h"

namespace pxio {

class PktPtr {
 public:
  PktPtr() = default;
  explicit PktPtr(rte_mbuf* m) noexcept : m_(m) {}
  PktPtr(PktPtr&& o) noexcept : m_(std::exchange(o.m_, nullptr)) {}
  PktPtr& operator=(PktPtr&& o) noexcept {
    if (this != &o) {
      reset();
      m_ = std::exchange(o.m_, nullptr);
    }
    return *this;
  }
  PktPtr(const PktPtr&) = delete;
  PktPtr& operator=(const PktPtr&) = delete;
  ~PktPtr() { reset(); }

  rte_mbuf* get() const noexcept { return m_; }
  rte_mbuf& operator*() const noexcept { return *m_; }
  rte_mbuf* operator->() const noexcept { return m_; }
  explicit operator bool() const noexcept { return m_ != nullptr; }
  [[nodiscard]] rte_mbuf* release() noexcept { return std::exchange(m_, nullptr); }
  void reset() noexcept {
    if (m_ != nullptr) rte_pktmbuf_free(std::exchange(m_, nullptr));
  }

 private:
  rte_mbuf* m_ = nullptr;
};

// First byte of the packet's first segment.
inline uint8_t* data(const rte_mbuf& m) { return rte_pktmbuf_mtod(&m, uint8_t*); }
template <typename T>
T& header_at(const rte_mbuf& m, size_t offset) {
  return *reinterpret_cast<T*>(data(m) + offset);
}

// Source and destination of the IP packet behind `l2_len` bytes, in network order.
inline const uint8_t* ip_src(const rte_mbuf& m, uint32_t l2_len, uint32_t version) {
  return data(m) + l2_len + (version == 4 ? offsetof(Ipv4Header, src) : offsetof(Ipv6Header, src));
}
inline const uint8_t* ip_dst(const rte_mbuf& m, uint32_t l2_len, uint32_t version) {
  return data(m) + l2_len + (version == 4 ? offsetof(Ipv4Header, dst) : offsetof(Ipv6Header, dst));
}

// Makes the first `len` bytes (at most the packet's length) contiguous in the first segment, moving
// them up from the segments behind. False where the first segment has no room, or isn't ours alone.
bool pull(rte_mbuf& m, uint16_t len) noexcept;

// Cuts the packet to `len` bytes, Ethernet padding for instance; segments left empty are freed.
void trim_longer(rte_mbuf& m, uint32_t len) noexcept;  // the packet is longer
inline void trim_to(rte_mbuf& m, uint32_t len) noexcept {
  if (m.pkt_len > len) [[unlikely]] trim_longer(m, len);
}

// Takes `len` bytes out of the packet behind its first `at`, which lie in the first segment and move up; more follow.
// The caller is the only one who holds the buffers.
void erase(rte_mbuf& m, uint16_t at, uint32_t len) noexcept;

// Takes `len` bytes off the front; they lie in the first segment, and at least one byte stays there
// unless the next segment exists, which then takes over as the head. Returns the (new) head.
rte_mbuf* hand_over_head(rte_mbuf* m) noexcept;  // of strip_front: the first segment is empty
inline rte_mbuf* strip_front(rte_mbuf* m, uint16_t len) noexcept {
  m->data_off = static_cast<uint16_t>(m->data_off + len);
  m->data_len = static_cast<uint16_t>(m->data_len - len);
  m->pkt_len -= len;
  if (m->data_len != 0 || m->next == nullptr) [[likely]] return m;
  return hand_over_head(m);
}

// Takes empty buffers out of the chain: some NICs stop at them. One that is empty all over keeps its head.
void drop_empty(rte_mbuf& m) noexcept;

// Appends the chain `tail` (headers already stripped) behind `last`, the last segment of `head`.
// Constant time in the length of `head`. Returns the new last segment.
inline rte_mbuf* append(rte_mbuf& head, rte_mbuf& last, PktPtr tail) noexcept {
  rte_mbuf* t = tail.release();
  head.pkt_len += t->pkt_len;
  head.nb_segs = static_cast<uint16_t>(head.nb_segs + t->nb_segs);
  last.next = t;
  t->pkt_len = t->data_len;
  rte_mbuf* end = t;
  while (end->next != nullptr) end = end->next;
  t->nb_segs = 1;
  return end;
}

// An exact, contiguous-where-possible copy of the packet from `pool`, chained where one buffer is too
// small; null where the pool is empty.
PktPtr copy_packet(const rte_mbuf& m, rte_mempool* pool) noexcept;

// `len` bytes of the packet from `offset`, which lie within it, behind headroom of their own: copied, or
// (1 byte and more) in buffers that share the packet's memory and keep it until they are freed; nobody may
// write to it then. Null where the pool is empty.
PktPtr copy_part(const rte_mbuf& m, uint32_t offset, uint32_t len, rte_mempool* pool) noexcept;
PktPtr share_part(rte_mbuf& m, uint32_t offset, uint32_t len, rte_mempool* pool) noexcept;

// `n` empty packets of one buffer, all or none of them.
bool new_packets(rte_mempool* pool, rte_mbuf** out, uint16_t n) noexcept;
// Makes the empty packet `part` a view of `len` bytes of `whole`, which is one direct buffer, from `offset`.
// The caller has counted it in by share_buffer(), once for all parts.
inline void view_part(rte_mbuf& part, rte_mbuf& whole, uint16_t offset, uint16_t len) noexcept {
  part.buf_addr = whole.buf_addr;
  rte_mbuf_iova_set(&part, rte_mbuf_iova_get(&whole));
  part.buf_len = whole.buf_len;
  part.priv_size = whole.priv_size;
  part.data_off = static_cast<uint16_t>(whole.data_off + offset);
  part.data_len = len;
  part.pkt_len = len;
  part.ol_flags = RTE_MBUF_F_INDIRECT;
}
inline bool one_buffer(const rte_mbuf& m) noexcept { return m.nb_segs == 1 && RTE_MBUF_DIRECT(&m); }
inline void share_buffer(rte_mbuf& whole, uint16_t parts) noexcept {
  rte_mbuf_refcnt_update(&whole, static_cast<int16_t>(parts));
}

// Room for `len` bytes more in front of the packet; null where its headroom is shorter.
inline uint8_t* prepend(rte_mbuf& m, uint16_t len) noexcept {
  return reinterpret_cast<uint8_t*>(rte_pktmbuf_prepend(&m, len));
}
// An empty packet, null where the pool is empty; and room for `len` bytes more at its end, null where the
// buffer has no such tailroom.
PktPtr new_packet(rte_mempool* pool) noexcept;
inline uint8_t* extend(rte_mbuf& m, uint16_t len) noexcept {
  return reinterpret_cast<uint8_t*>(rte_pktmbuf_append(&m, len));
}
// Whether the packet's bytes are its own to change.
inline bool writable(const rte_mbuf& m) noexcept { return rte_mbuf_refcnt_read(&m) == 1 && !RTE_MBUF_CLONED(&m); }

}  // namespace pxio
