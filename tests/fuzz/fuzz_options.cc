// SPDX-License-Identifier: BSD-3-Clause
// Any TCP header through the option parsers; it lies in memory of exactly its size.
#include <cstring>
#include <memory>

#include "pxio/dp/tcp_options.h"
#include "tests/fuzz/input.h"

using namespace test;

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const size_t len = 20 + std::min<size_t>(size, 40) / 4 * 4;
  auto header = std::make_unique<uint8_t[]>(len);
  if (len > 20) std::memcpy(header.get() + 20, data, len - 20);
  const auto o = pxio::parse_tcp_options(header.get(), static_cast<unsigned>(len));
  fuzz_check(o.ts_off == 0 || o.ts_off + 8u <= len, "timestamps outside the header");
  fuzz_check(o.mss_off == 0 || o.mss_off + 2u <= len, "MSS outside the header");
  unsigned n = 0;
  pxio::for_each_mss(header.get(), static_cast<unsigned>(len), [&](unsigned off) {
    fuzz_check(off + 2 <= len, "MSS outside the header");
    fuzz_check(n != 0 || o.malformed || off == o.mss_off, "the first MSS is another one");
    ++n;
  });
  fuzz_check(o.malformed || n == o.mss_count, "the walks differ");
  return 0;
}
