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
void trim_to(rte_mbuf& m, uint32_t len) noexcept;

// Takes `len` bytes off the front; they lie in the first segment, and at least one byte stays there
// unless the next segment exists, which then takes over as the head. Returns the (new) head.
rte_mbuf* strip_front(rte_mbuf* m, uint16_t len) noexcept;

// Takes empty buffers out of the chain: some NICs stop at them. One that is empty all over keeps its head.
void drop_empty(rte_mbuf& m) noexcept;

// Appends the chain `tail` (headers already stripped) behind `last`, the last segment of `head`.
// Constant time in the length of `head`. Returns the new last segment.
rte_mbuf* append(rte_mbuf& head, rte_mbuf& last, PktPtr tail) noexcept;

// An exact, contiguous-where-possible copy of the packet from `pool`, chained where one buffer is too
// small; null where the pool is empty.
PktPtr copy_packet(const rte_mbuf& m, rte_mempool* pool) noexcept;

// `len` bytes of the packet from `offset`, which lie within it, behind headroom of their own: copied, or
// (1 byte and more) in buffers that share the packet's memory and keep it until they are freed; nobody may
// write to it then. Null where the pool is empty.
PktPtr copy_part(const rte_mbuf& m, uint32_t offset, uint32_t len, rte_mempool* pool) noexcept;
PktPtr share_part(rte_mbuf& m, uint32_t offset, uint32_t len, rte_mempool* pool) noexcept;

// Room for `len` bytes more in front of the packet; null where its headroom is shorter.
uint8_t* prepend(rte_mbuf& m, uint16_t len) noexcept;
// An empty packet, null where the pool is empty; and room for `len` bytes more at its end, null where the
// buffer has no such tailroom.
PktPtr new_packet(rte_mempool* pool) noexcept;
uint8_t* extend(rte_mbuf& m, uint16_t len) noexcept;
// Whether the packet's bytes are its own to change.
inline bool writable(const rte_mbuf& m) noexcept { return rte_mbuf_refcnt_read(&m) == 1 && !RTE_MBUF_CLONED(&m); }

}  // namespace pxio
