// SPDX-License-Identifier: BSD-3-Clause
// Large tables: zeroed memory that costs nothing until it is touched, on huge pages where the kernel has
// them to spare, so that finding an entry seldom waits for a page walk.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace pxio {

struct Unmap {
  void* base;
  size_t bytes;
  void operator()(void*) const noexcept { munmap(base, bytes); }
};
template <typename T>
using ZeroedArray = std::unique_ptr<T[], Unmap>;

// n elements whose valid state is all zeros. Throws std::bad_alloc.
template <typename T>
ZeroedArray<T> make_zeroed(size_t n) {
  static_assert(std::is_trivially_destructible_v<T>);
  constexpr size_t kHuge = 2u << 20;
  const size_t bytes = n * sizeof(T) + kHuge;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  // Smaller ones would waste most of a page.
  const bool huge = n * sizeof(T) >= kHuge;
  auto at = reinterpret_cast<uintptr_t>(base);
  if (huge) {
    at = (at + kHuge - 1) / kHuge * kHuge;
    madvise(reinterpret_cast<void*>(at), n * sizeof(T), MADV_HUGEPAGE);
  }
  return ZeroedArray<T>(reinterpret_cast<T*>(at), Unmap{base, bytes});
}

}  // namespace pxio
