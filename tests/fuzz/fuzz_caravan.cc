// SPDX-License-Identifier: BSD-3-Clause
// A caravan as somebody wrote it: family and TOS, then the payload of the outer datagram. Refused
// for the same reason, or taken apart into the same datagrams, over plain bytes and over buffers
// cut anywhere; what came apart makes the same caravan again.
#include "caravan/core/caravan.h"
#include "caravan/dp/unbundler.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/with_dpdk.h"
#include "tests/support/builder.h"

using namespace test;

namespace {

Frame frame_of(int version, uint8_t tos, const Bytes& payload) {
  Lower lower{.version = version, .tos = tos};
  if (version == 6) {
    lower.src = addr6(0xfd00, 9, 2);
    lower.dst = addr6(0x2001, 0xdb8, 7);
  }
  const auto length = static_cast<uint16_t>(8 + payload.size());
  Bytes udp{0xc0,
            0,
            caravan::kDefaultPort >> 8,
            caravan::kDefaultPort & 255,
            static_cast<uint8_t>(length >> 8),
            static_cast<uint8_t>(length),
            0,
            1};  // the port has proved the checksum, or will say otherwise
  udp.insert(udp.end(), payload.begin(), payload.end());
  return {ip_frame(lower, 17, udp)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzInput in(bytes, size);
  const uint8_t how = in.u8();
  const int version = how % 2 == 0 ? 4 : 6;
  const auto family = version == 4 ? caravan::Family::kIpv4 : caravan::Family::kIpv6;
  const uint8_t tos = in.u8();
  Bytes payload = in.bytes(9000);
  caravan::Records records;
  const caravan::Refusal refusal =
      caravan::unbundle(payload, family, caravan::kDefaultPort, records);
  const bool whole = refusal == caravan::Refusal::kNone;
  std::vector<caravan::Datagram> datagrams;
  if (whole) {
    for (unsigned i = 0; i < records.count; ++i)
      datagrams.push_back(caravan::datagram_of(payload, records.at[i]));
    Bytes again(payload.size());
    fuzz_check(caravan::bundle(datagrams, family, records.ecn, caravan::kDefaultPort, again) ==
                   payload.size(),
               "what came apart can be bundled");
    fuzz_check(again == payload, "and is the same caravan");
  }
  NoLeak none;
  caravan::Counters count;
  caravan::Unbundler unbundler({.max_segs = static_cast<uint16_t>(1 + (how >> 1) % 8)},
                               pools().buffers(), count);
  Frame f = frame_of(version, tos, payload);
  const unsigned step = 40 + how;
  if (how >= 16)
    for (uint32_t at = step; at < f.bytes.size(); at += step) f.cuts.push_back(at);
  pxio::PktPtr m = to_mbuf(f, pools().buffers());
  const pxio::PacketView v = pxio::parse(*m, pxio::Link::kEthernet);
  caravan::Unbundler::Out out;
  const uint16_t n = unbundler.take(std::move(m), v, out);
  const bool marked = whole && caravan::tos_of(tos, records.ecn) < 0;
  fuzz_check(n == (whole && !marked ? records.count : 0),
             "buffers give as many datagrams as bytes do");
  for (uint16_t i = 0; i < n; ++i) {
    const Bytes got = to_bytes(*out[i]);
    const auto& udp = datagrams[i].udp;
    const size_t front = 14 + caravan::ip_bytes(family);
    fuzz_check(got.size() == front + udp.size() &&
                   std::equal(udp.begin(), udp.end(), got.begin() + static_cast<long>(front)),
               "each datagram's bytes");
    const pxio::PacketView w = pxio::parse(*out[i], pxio::Link::kEthernet);
    fuzz_check(
        w.kind == pxio::Kind::kUdp && w.why == pxio::Opaque::kNone && w.ip_len + 14 == got.size(),
        "each datagram is a whole packet");
    pxio::PktPtr(out[i]).reset();
  }
  return 0;
}
