// SPDX-License-Identifier: BSD-3-Clause
// Any ICMP message, with a good checksum, from either side, while a flow is open.
#include "tests/fuzz/input.h"
#include "tests/fuzz/with_dpdk.h"
#include "tests/support/bed.h"

using namespace test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  const uint8_t how = in.u8();
  Flow flow({(how & 1) != 0 ? 6 : 4, how >> 1 & 1, true});
  Bed bed;
  bed.open(flow);
  bed.out({flow.out(0, 5000)});
  bed.in(flow.run(0, 2));
  bed.forget();
  const bool inbound = (how & 4) == 0;
  Lower lo = inbound ? flow.in().lower : flow.out().lower;
  const uint32_t rest = in.u32();
  const uint8_t type = in.u8(), code = in.u8();
  Bytes quote;
  if ((how & 8) != 0) {  // a real quote, with some bytes changed
    quote = decode((inbound ? flow.out(0, 1448) : flow.in(0, 1448)).build().bytes).ip();
    quote.resize(in.u8() + 20u);
    while (!in.empty()) {
      const size_t at = in.u8();
      if (at < quote.size()) quote[at] = in.u8();
    }
  } else {
    quote = in.rest();
    quote.resize(std::min<size_t>(quote.size(), 1400));
  }
  Frame f = too_big(lo, rest, quote);
  const size_t l4 = 14u + 4u * lo.tags.size() + flow.ip_len();
  if (code != 0) {  // else it stays a too-big error
    f.bytes[l4] = type;
    f.bytes[l4 + 1] = code;
    f.bytes[l4 + 2] = f.bytes[l4 + 3] = 0;
    uint64_t sum = word_sum(f.bytes.data() + l4, f.bytes.size() - l4);
    if (!flow.v4()) sum += pseudo_header_sum(6, lo.src, lo.dst, 58, f.bytes.size() - l4);
    const uint16_t c = internet_checksum(sum);
    f.bytes[l4 + 2] = static_cast<uint8_t>(c >> 8);
    f.bytes[l4 + 3] = static_cast<uint8_t>(c);
  }
  bed.process(inbound ? pxio::Direction::kInbound : pxio::Direction::kOutbound, {f});
  for (const auto& out : {bed.inside(), bed.outside()})
    for (const Decoded& d : out) fuzz_check(d.frame == f.bytes || d.tcp, "an error left changed");
  // Whatever it said, jumbos go on and come out whole, or are dropped and counted.
  bed.out({flow.out(5000, 5000)});
  Bytes payload = payload_of(bed.outside());
  fuzz_check(payload.empty() || same(payload, stream_of(flow.out(5000), 5000)), "the stream broke");
  fuzz_check(!payload.empty(), "a jumbo vanished");
  const std::string wrong = bed.check_balance();
  fuzz_check(wrong.empty(), wrong);
  return 0;
}
