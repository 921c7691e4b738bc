// SPDX-License-Identifier: BSD-3-Clause
// DPDK for tests: started once per process without hugepages or ports, with one pair of pools.
#pragma once
#include "pxio/ctl/eal.h"

namespace test {

// Starts EAL and makes the pools; later calls do nothing.
void start_dpdk();
pxio::BufferPools& pools();

// Every buffer is back when this goes out of scope, or the test fails: as the first line of a test
// that takes buffers itself.
class NoLeak {
 public:
  NoLeak();
  ~NoLeak() noexcept(false);

 private:
  int exceptions_;
};

}  // namespace test
