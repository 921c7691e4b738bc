// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/ctl/eal.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_memory.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "pxio/ctl/eal_log.h"

namespace pxio {
namespace {

using Pages = EalOptions::Pages;

constexpr uint16_t kSmallRoom = RTE_PKTMBUF_HEADROOM + 2048;
constexpr uint16_t kLargeRoom = (RTE_PKTMBUF_HEADROOM + 9600 + 63) / 64 * 64;
constexpr uint64_t kMiB = 1u << 20;

struct PageSize {
  uint64_t bytes = 0;
  uint64_t free = 0;
};

// The kernel's page sizes, those with the most free memory first.
std::vector<PageSize> huge_pages() {
  std::vector<PageSize> found;
  std::error_code ec;
  for (const auto& dir : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", ec)) {
    unsigned long kib = 0;
    if (std::sscanf(dir.path().filename().c_str(), "hugepages-%lukB", &kib) != 1) continue;
    PageSize p{uint64_t{kib} * 1024, 0};
    std::ifstream(dir.path() / "free_hugepages") >> p.free;
    found.push_back(p);
  }
  std::sort(found.begin(), found.end(), [](const PageSize& a, const PageSize& b) {
    return a.bytes * a.free > b.bytes * b.free;
  });
  return found;
}

// Whether the pages can be had: the count in sysfs knows nothing of what others have reserved. Mapping
// reserves them without touching one.
bool can_reserve(const PageSize& p, uint64_t bytes) {
  const int log2 = std::countr_zero(p.bytes);
  void* a = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (log2 << MAP_HUGE_SHIFT), -1, 0);
  if (a == MAP_FAILED) return false;
  munmap(a, bytes);
  return true;
}

std::string size_text(uint64_t bytes) {
  if (bytes >= 1024 * kMiB) return fmt::format("{} GiB", bytes / (1024 * kMiB));
  if (bytes >= kMiB) return fmt::format("{} MiB", bytes / kMiB);
  return fmt::format("{} KiB", bytes / 1024);
}

struct Choice {
  bool huge;
  std::string text;
};

Choice choose_pages(const EalOptions& o) {
  if (o.pages == Pages::kNone) return {false, "no hugepages (as asked): 4 KiB pages"};
  const uint64_t want = o.memory_mb * kMiB;
  const std::vector<PageSize> have = huge_pages();
  for (const PageSize& p : have) {
    const uint64_t n = (want + p.bytes - 1) / p.bytes;
    if (p.free >= n && can_reserve(p, n * p.bytes))
      return {true, fmt::format("hugepages: {} x {}", n, size_text(p.bytes))};
  }
  std::string free = "0 free";
  if (!have.empty() && have[0].free != 0)
    free = fmt::format("{} x {} free, {} needed", have[0].free, size_text(have[0].bytes), size_text(want));
  if (o.pages == Pages::kHuge) {
    throw std::runtime_error(
        fmt::format("not enough hugepages: {} MiB needed, {}; reserve some with "
                    "'sysctl vm.nr_hugepages={}', or run without",
                    o.memory_mb, free, (want + 2 * kMiB - 1) / (2 * kMiB)));
  }
  return {false, fmt::format("no hugepages ({}): 4 KiB pages", free)};
}

// All CPUs that this process may use, so that EAL doesn't tie the main thread to one of them.
std::string main_lcore() {
  cpu_set_t set;
  std::string cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) cpus += fmt::format("{}{}", cpus.empty() ? "" : ",", i);
  }
  return cpus.empty() ? "0" : fmt::format("0@({})", cpus);
}

std::vector<std::string> arguments(const EalOptions& o, bool huge) {
  std::vector<std::string> a{"pxio", "--no-telemetry", "--lcores", main_lcore(),
                             "-m",
                             std::to_string(huge || o.memory_4k_mb == 0 ? o.memory_mb : o.memory_4k_mb)};
  if (huge) {
    a.insert(a.end(), {"--in-memory", "--single-file-segments"});
  } else {
    // --in-memory can't be had together with --no-huge; without shared files the effect is the same.
    a.insert(a.end(), {"--no-huge", "--no-shconf", "--file-prefix", fmt::format("pxio{}", getpid())});
  }
  if (!o.pci) {
    // Virtual devices never need physical addresses, which take rights to find out.
    a.insert(a.end(), {"--no-pci", "--iova-mode", "va"});
  }
  for (const std::string& v : o.vdevs) a.insert(a.end(), {"--vdev", v});
  for (const std::string& p : o.allow) a.insert(a.end(), {"-a", p});
  if (o.quiet) a.insert(a.end(), {"--log-level", "*:error"});
  a.insert(a.end(), o.extra.begin(), o.extra.end());
  return a;
}

int advise_huge(const rte_memseg_list* list, void*) {
  if (list->external == 0) madvise(list->base_va, list->len, MADV_HUGEPAGE);
  return 0;
}

}  // namespace

std::string start_eal(const EalOptions& options) {
  const Choice choice = choose_pages(options);
  // EAL keeps pointers into them.
  static std::vector<std::string> args;
  static std::vector<char*> argv;
  args = arguments(options, choice.huge);
  argv.clear();
  for (std::string& a : args) argv.push_back(a.data());

  cpu_set_t affinity;
  const bool have_affinity = sched_getaffinity(0, sizeof affinity, &affinity) == 0;
  int rc = 0, error = 0;
  std::string why;
  if (options.quiet) {
    EalLog log;
    rte_log_set_global_level(RTE_LOG_ERR);
    rc = rte_eal_init(static_cast<int>(argv.size()), argv.data());
    error = rte_errno;
    why = log.reason();
  } else {
    rc = rte_eal_init(static_cast<int>(argv.size()), argv.data());
    error = rte_errno;
  }
  if (have_affinity) sched_setaffinity(0, sizeof affinity, &affinity);
  if (rc < 0) {
    throw std::runtime_error(fmt::format("DPDK didn't start: {}{}",
                                         why.empty() ? std::string(rte_strerror(error)) : why,
                                         options.extra.empty() ? "" : "; see the extra EAL arguments"));
  }
  // Nothing is ever put into it.
  if (!choice.huge) rmdir(rte_eal_get_runtime_dir());
  // Where the kernel can back shared memory by large pages when advised to, fewer TLB misses.
  if (!choice.huge) rte_memseg_list_walk(advise_huge, nullptr);
  return choice.text;
}

namespace {

size_t free_heap() {
  size_t free = 0;
  rte_malloc_socket_stats heap{};
  for (unsigned n = 0; n < rte_socket_count(); ++n) {
    const int socket = rte_socket_id_by_idx(n);
    if (rte_malloc_get_socket_stats(socket, &heap) == 0) free += heap.heap_freesz_bytes;
  }
  return free;
}

rte_mempool* make_pool(const char* kind, uint32_t count, uint16_t room) {
  static std::atomic<unsigned> serial{0};
  const std::string name = fmt::format("{}{}", kind, serial++);
  const uint64_t need =
      uint64_t{count} * rte_mempool_calc_obj_size(sizeof(rte_mbuf) + room, 0, nullptr);
  const auto refuse = [&](const char* why) {
    return std::runtime_error(
        fmt::format("no memory for {} {} buffers: {} MiB needed, {} MiB left ({}); raise the memory "
                    "setting or use fewer buffers",
                    count, kind, need / kMiB + 1, free_heap() / kMiB, why));
  };
  // DPDK would try first, and clear all that it had taken when it gives up: seconds. With hugepages
  // the heap can grow, so only DPDK can tell.
  if (!rte_eal_has_hugepages() && need > free_heap()) throw refuse("no hugepages");
  // Caches of several threads must not hold a small pool's buffers among them.
  const unsigned cache = std::min<unsigned>(256, count / 8);
  rte_mempool* pool = rte_pktmbuf_pool_create(name.c_str(), count, cache, 0, room, SOCKET_ID_ANY);
  if (pool == nullptr) throw refuse(rte_strerror(rte_errno));
  return pool;
}

}  // namespace

BufferPools::BufferPools(uint32_t small_count, uint32_t large_count) {
  b_.small = make_pool("small", small_count, kSmallRoom);
  try {
    b_.large = make_pool("large", large_count, kLargeRoom);
  } catch (...) {
    rte_mempool_free(b_.small);
    throw;
  }
}

BufferPools::~BufferPools() {
  rte_mempool_free(b_.large);
  rte_mempool_free(b_.small);
}

uint32_t BufferPools::in_use() const {
  return rte_mempool_in_use_count(b_.small) + rte_mempool_in_use_count(b_.large);
}

}  // namespace pxio
