// SPDX-License-Identifier: BSD-3-Clause
// Any frame that claims to have been merged in a tunnel, over any chain of buffers, cut.
#include <array>
#include <vector>

#include "pxio/dp/cut_merged.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/with_dpdk.h"

using namespace test;
using pxio::PktPtr;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  const uint32_t l4_at = in.u8();
  const uint16_t payload = in.u16();
  Frame f;
  f.cuts = {in.u8() + 1u};
  f.bytes = in.rest();
  if (f.bytes.empty() || f.bytes.size() > 9600) return 0;
  {
    const PktPtr p = to_mbuf(f, pools().buffers());
    std::array<rte_mbuf*, 256> out;
    const uint16_t n = pxio::cut_merged(*p, l4_at, payload, pools().buffers(), out.data(), out.size());
    fuzz_check(to_bytes(*p) == f.bytes, "cutting changed the packet");
    std::vector<Bytes> pieces;
    for (uint16_t i = 0; i < n; ++i) pieces.push_back(to_bytes(*PktPtr(out[i])));
    // What the innermost header is, the cutter alone knows: with one of two lengths all fits.
    const auto fits = [&](size_t l4_len) {
      const size_t headers = l4_at + l4_len;
      Bytes all(f.bytes.begin(), f.bytes.begin() + static_cast<ptrdiff_t>(std::min(headers, f.bytes.size())));
      for (const Bytes& b : pieces) {
        if (b.size() <= headers || b.size() - headers > payload) return false;
        all.insert(all.end(), b.begin() + static_cast<ptrdiff_t>(headers), b.end());
      }
      return all == f.bytes;
    };
    fuzz_check(n == 0 || fits(8) || fits((pieces[0].at(l4_at + 12) >> 4) * 4u), "the pieces aren't the payload");
  }
  fuzz_check(pools().in_use() == 0, "a buffer was lost");
  return 0;
}
