// SPDX-License-Identifier: BSD-3-Clause
// For fuzz targets that need packet buffers: DPDK starts before the first input. Once a target.
#pragma once
#include "tests/support/eal.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  test::start_dpdk();
  return 0;
}
