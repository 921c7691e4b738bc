// SPDX-License-Identifier: BSD-3-Clause
// The pools that a worker takes its buffers from. Not owned.
#pragma once
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstdint>

namespace pxio {

struct Buffers {
  rte_mempool* small = nullptr;  // frames of outside size: 2048 B of data room
  rte_mempool* large = nullptr;  // jumbo frames: at least 9600 B of data room
};

// Bytes of a packet that a buffer of the pool holds behind its headroom.
inline uint32_t room_of(rte_mempool* pool) noexcept {
  return rte_pktmbuf_data_room_size(pool) - uint32_t{RTE_PKTMBUF_HEADROOM};
}
// The pool whose buffers are no larger than frames of `bytes` need.
inline rte_mempool* pool_for(const Buffers& b, uint32_t bytes) noexcept {
  return bytes <= room_of(b.small) ? b.small : b.large;
}

}  // namespace pxio
