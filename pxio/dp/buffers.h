// SPDX-License-Identifier: BSD-3-Clause
// The pools that a worker takes its buffers from. Not owned.
#pragma once
#include <rte_mempool.h>

namespace pxio {

struct Buffers {
  rte_mempool* small = nullptr;  // frames of outside size: 2048 B of data room
  rte_mempool* large = nullptr;  // jumbo frames: at least 9600 B of data room
};

}  // namespace pxio
