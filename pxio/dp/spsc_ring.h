// SPDX-License-Identifier: BSD-3-Clause
// A bounded queue of small values from one thread to another: an rte_ring whose elements are copied in and
// out. One thread puts, one takes; nothing blocks. Worker and control thread.
#pragma once
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace pxio {

template <typename T>
class SpscRing {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 4 == 0);

 public:
  // `size` is a power of two; one element fewer fits. Throws std::bad_alloc.
  explicit SpscRing(uint32_t size) {
    const ssize_t bytes = rte_ring_get_memsize_elem(sizeof(T), size);
    if (bytes <= 0) throw std::bad_alloc();
    const size_t whole = (static_cast<size_t>(bytes) + 63) / 64 * 64;
    ring_.reset(static_cast<rte_ring*>(std::aligned_alloc(64, whole)));
    if (!ring_ || rte_ring_init(ring_.get(), "", size, RING_F_SP_ENQ | RING_F_SC_DEQ) != 0)
      throw std::bad_alloc();
  }
  // False: full, nothing was put.
  bool put(const T& v) noexcept {
    return rte_ring_sp_enqueue_bulk_elem(ring_.get(), &v, sizeof(T), 1, nullptr) == 1;
  }
  // False: empty.
  bool take(T& v) noexcept {
    return rte_ring_sc_dequeue_bulk_elem(ring_.get(), &v, sizeof(T), 1, nullptr) == 1;
  }
  // The first of n; returns how many.
  uint32_t put_burst(const T* v, uint32_t n) noexcept {
    return rte_ring_sp_enqueue_burst_elem(ring_.get(), v, sizeof(T), n, nullptr);
  }
  // Up to n; returns how many.
  uint32_t take_burst(T* v, uint32_t n) noexcept {
    return rte_ring_sc_dequeue_burst_elem(ring_.get(), v, sizeof(T), n, nullptr);
  }
  // Two loads of lines that stay in the cache while nothing is put.
  bool empty() const noexcept {
    return __atomic_load_n(&ring_->prod.tail, __ATOMIC_RELAXED) == __atomic_load_n(&ring_->cons.tail, __ATOMIC_RELAXED);
  }

 private:
  struct Free {
    void operator()(rte_ring* r) const noexcept { std::free(r); }
  };
  std::unique_ptr<rte_ring, Free> ring_;
};

}  // namespace pxio
