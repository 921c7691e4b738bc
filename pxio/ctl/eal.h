// SPDX-License-Identifier: BSD-3-Clause
// DPDK's environment and the buffer pools. Main thread, once per process.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "pxio/dp/buffers.h"

namespace pxio {

struct EalOptions {
  enum class Pages { kAuto, kHuge, kNone } pages = Pages::kAuto;
  uint32_t memory_mb = 512;         // for buffers and ring memory
  uint32_t memory_4k_mb = 0;        // the same on pages of 4 KiB, of which each buffer takes whole ones; 0: no other
  bool pci = false;                 // scan the PCI bus
  std::vector<std::string> vdevs;   // --vdev arguments
  std::vector<std::string> allow;   // PCI addresses to use
  std::vector<std::string> extra;   // raw EAL arguments, for the brave
  bool quiet = true;                // only errors on stderr
};

// Starts EAL without any file shared or left behind, so that any number of processes run side by side;
// hugepages where enough are free and kNone isn't asked for. The calling thread's affinity stays as it
// was. Returns what was chosen, as a line for people: "hugepages: 256 x 2 MiB" or "no hugepages (0
// free): 4 KiB pages". Throws std::runtime_error with one clear line on failure (what is missing and
// what would help).
std::string start_eal(const EalOptions& options);

// Owns the two pools; they must be full again when it is destroyed.
class BufferPools {
 public:
  // Counts of buffers. Throws std::runtime_error naming the memory needed and had.
  BufferPools(uint32_t small_count, uint32_t large_count);
  ~BufferPools();
  BufferPools(const BufferPools&) = delete;
  BufferPools& operator=(const BufferPools&) = delete;
  Buffers buffers() const { return b_; }
  uint32_t in_use() const;  // buffers of both pools that are not in them (nor in their caches)

 private:
  Buffers b_;
};

}  // namespace pxio
