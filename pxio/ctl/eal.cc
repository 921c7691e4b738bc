// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/ctl/eal.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>

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
                             "-m", std::to_string(o.memory_mb)};
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

// What EAL wrote that tells most: the last line that isn't the bare statement that it failed.
std::string reason(const std::string& log) {
  std::string best;
  for (size_t at = 0; at < log.size();) {
    const size_t end = std::min(log.find('\n', at), log.size());
    std::string line = log.substr(at, end - at);
    at = end + 1;
    if (line.rfind("EAL: ", 0) == 0) line.erase(0, 5);
    if (line.empty() || line.find("FATAL") != std::string::npos || line.find("Invalid 'command line'") == 0)
      continue;
    if (best.empty() || line.find("Usage") == std::string::npos) best = line;
  }
  return best;
}

}  // namespace

std::string start_eal(const EalOptions& options) {
  const Choice choice = choose_pages(options);
  const std::vector<std::string> args = arguments(options, choice.huge);
  std::vector<char*> argv;
  for (const std::string& a : args) argv.push_back(strdup(a.c_str()));

  cpu_set_t affinity;
  const bool have_affinity = sched_getaffinity(0, sizeof affinity, &affinity) == 0;
  // EAL's errors become part of ours. A stream of our own also keeps it from writing to syslog.
  char* text = nullptr;
  size_t size = 0;
  FILE* log = options.quiet ? open_memstream(&text, &size) : nullptr;
  if (log != nullptr) {
    rte_openlog_stream(log);
    rte_log_set_global_level(RTE_LOG_ERR);
  }
  const int rc = rte_eal_init(static_cast<int>(argv.size()), argv.data());
  const int error = rte_errno;
  rte_openlog_stream(stderr);
  std::string said;
  if (log != nullptr) {
    std::fclose(log);
    said = text;
    std::free(text);
  }
  if (have_affinity) sched_setaffinity(0, sizeof affinity, &affinity);
  if (rc < 0) {
    const std::string why = reason(said);
    throw std::runtime_error(fmt::format("DPDK didn't start: {}{}",
                                         why.empty() ? std::string(rte_strerror(error)) : why,
                                         error == EACCES ? " (root, or fewer EAL options, may help)" : ""));
  }
  // Nothing is ever put into it.
  if (!choice.huge) rmdir(rte_eal_get_runtime_dir());
  // argv stays: EAL keeps pointers into it.
  return choice.text;
}

namespace {

rte_mempool* make_pool(const char* kind, uint32_t count, uint16_t room) {
  static std::atomic<unsigned> serial{0};
  const std::string name = fmt::format("{}{}", kind, serial++);
  // Caches of several threads must not hold a small pool's buffers among them.
  const unsigned cache = std::min<unsigned>(256, count / 8);
  rte_mempool* pool = rte_pktmbuf_pool_create(name.c_str(), count, cache, 0, room, SOCKET_ID_ANY);
  if (pool != nullptr) return pool;
  const int error = rte_errno;
  rte_malloc_socket_stats heap{};
  size_t free = 0;
  for (unsigned s = 0; s < RTE_MAX_NUMA_NODES; ++s)
    if (rte_malloc_get_socket_stats(static_cast<int>(s), &heap) == 0) free += heap.heap_freesz_bytes;
  const uint64_t need =
      uint64_t{count} * rte_mempool_calc_obj_size(sizeof(rte_mbuf) + room, 0, nullptr);
  throw std::runtime_error(fmt::format(
      "no memory for {} {} buffers: about {} MiB needed, {} MiB free ({}); raise the memory setting",
      count, kind, need / kMiB + 1, free / kMiB, rte_strerror(error)));
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
