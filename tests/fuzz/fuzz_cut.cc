// SPDX-License-Identifier: BSD-3-Clause
// Any frame that claims to have been merged in a tunnel, over any chain of buffers, cut.
#include <array>

#include "pxio/dp/cut_merged.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/with_dpdk.h"

using namespace test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  const uint32_t tcp_at = in.u8();
  const uint16_t payload = in.u16();
  Frame f;
  f.cuts = {in.u8() + 1u};
  f.bytes = in.rest();
  if (f.bytes.empty() || f.bytes.size() > 9600) return 0;
  {
    const pxio::PktPtr p = to_mbuf(f, pools().buffers());
    std::array<rte_mbuf*, 256> out;
    const uint16_t n = pxio::cut_merged(*p, tcp_at, payload, pools().buffers(), out.data(), out.size());
    fuzz_check(to_bytes(*p) == f.bytes, "cutting changed the packet");
    size_t bytes = 0;
    for (uint16_t i = 0; i < n; ++i) {
      const pxio::PktPtr piece(out[i]);
      const Bytes b = to_bytes(*piece);
      const size_t headers = tcp_at + (b.at(tcp_at + 12) >> 4) * 4u;
      fuzz_check(b.size() > headers && b.size() - headers <= payload, "a piece's size");
      const size_t from = headers + bytes;
      fuzz_check(std::equal(b.begin() + static_cast<ptrdiff_t>(headers), b.end(), f.bytes.begin() + static_cast<ptrdiff_t>(from)),
                 "a piece's payload");
      bytes += b.size() - headers;
      if (i + 1 == n) fuzz_check(headers + bytes == f.bytes.size(), "something is missing");
    }
  }
  fuzz_check(pools().in_use() == 0, "a buffer was lost");
  return 0;
}
