// SPDX-License-Identifier: BSD-3-Clause
// Any frame, over any chain of buffers, through the parser.
#include "pxio/dp/packet_view.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/with_dpdk.h"

using namespace test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  const uint8_t how = in.u8();
  Frame f;
  f.cuts = {in.u8(), in.u8()};
  f.bytes = in.rest();
  if (f.bytes.empty() || f.bytes.size() > 9600) return 0;
  {
    pxio::PktPtr p = to_mbuf(f, pools().buffers());
    const auto v = pxio::parse(*p, (how & 1) != 0 ? pxio::Link::kRawIp : pxio::Link::kEthernet);
    fuzz_check(to_bytes(*p) == f.bytes, "parsing changed the packet");
    if (v.kind == pxio::Kind::kTcp) {
      fuzz_check(v.header_len() <= p->data_len, "headers aren't contiguous");
      fuzz_check(v.l2_len + v.ip_len <= p->pkt_len, "longer than the frame");
      fuzz_check(v.ip_len == uint32_t{v.l3_len} + v.l4_len + v.payload_len, "lengths don't add up");
      fuzz_check(v.l4_len >= 20 && v.l4_len <= 60, "TCP header length");
      fuzz_check(v.ts_off == 0 || v.ts_off + 8 <= v.l4_len, "timestamps outside the header");
      fuzz_check(v.mss_off == 0 || v.mss_off + 2 <= v.l4_len, "MSS outside the header");
    }
    if (v.has_flow()) fuzz_check(v.l4_off() + 4 <= p->data_len, "ports aren't there");
    if (v.version != 0) fuzz_check(v.l2_len + (v.version == 4 ? 20u : 40u) <= p->data_len, "IP header isn't there");
  }
  fuzz_check(pools().in_use() == 0, "a buffer was lost");
  return 0;
}
