// SPDX-License-Identifier: BSD-3-Clause
// Probes for hosts that the gateway answers for, whole and in fragments as odd as the input wants them; reports
// and errors about a probe of its own.
#include "fpmtud/core/wire.h"
#include "pxgw/dp/probe_stage.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/with_dpdk.h"
#include "tests/support/bed.h"

using namespace test;
using namespace pxgw;

namespace {

constexpr uint16_t kPort = 7474, kFromPort = 40000;

Bytes probe(FuzzInput& in) {
  const uint8_t flags = in.u8();
  Bytes b(std::max<size_t>(in.u16() % 9473, fpmtud::kProbeBytes));
  fpmtud::Probe p;
  p.head = {.flags = flags, .round = in.u8()};
  p.seq = in.u16();
  p.size = static_cast<uint16_t>((flags & 64) != 0 ? in.u16() : b.size() + 28);
  p.top = p.size;
  fpmtud::encode(p, nullptr, b);
  return b;
}

// A fragment of the datagram, where it would be or elsewhere.
Frame fragment(FuzzInput& in, Lower lo, const Bytes& whole) {
  const uint8_t odd = in.u8();
  const size_t at = in.u16() % (whole.size() + 1) / 8 * 8;
  const size_t len = std::min<size_t>((odd & 1) != 0 ? in.u16() : 1480, whole.size() - at);
  lo.df = false;
  lo.id = in.u8() % 4;
  lo.frag_offset = static_cast<uint16_t>((odd & 2) != 0 ? in.u16() & 0x1fff : at / 8);
  lo.mf = (odd & 4) != 0 ? (odd & 8) != 0 : at + len < whole.size();
  const auto from = whole.begin() + static_cast<long>(at);
  return {ip_frame(lo, 17, Bytes(from, from + static_cast<long>(len)))};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  Policy policy;
  policy.outside_mtu = 9000;
  policy.assumed_mtu = 1500;
  policy.probing.answer = {{.version = 4}, {.version = 6}};
  Mailbox box(16, 16);
  Bed bed(policy);
  bed.gateway().add_stage([&box](const Stage::Context& c) {
    return std::make_unique<ProbeStage>(c, box, 0, std::nullopt);
  });
  Lower lo;
  std::swap(lo.src, lo.dst);
  Command expect{.kind = Command::Kind::kExpect, .port = kPort, .from_port = kFromPort,
                 .to = PathKey::of(4, lo.src.data()), .from = PathKey::of(4, lo.dst.data())};
  bed.gateway().command(expect, bed.now());
  const Bytes payload = probe(in);
  const Bytes whole = decode(udp(lo, 5000, kPort, payload).bytes).l4;
  while (!in.empty()) {
    switch (in.u8() % 6) {
      case 0: bed.in({udp(lo, 5000, kPort, payload)}); break;
      case 1: bed.in({udp(lo, 5000, kPort, in.bytes(in.u8()))}); break;
      case 2: bed.in({fragment(in, lo, whole)}); break;
      case 3: {
        Bytes report(fpmtud::kReportBytes);
        fpmtud::encode(fpmtud::Report{}, nullptr, report);
        const size_t at = in.u8() % report.size();
        report[at] = in.u8();
        bed.in({udp(lo, kPort, kFromPort, report)});
        break;
      }
      case 4: {
        Lower sent = lo;
        std::swap(sent.src, sent.dst);
        Bytes quote = decode(udp(sent, kFromPort, kPort, payload).bytes).ip();
        quote.resize(std::min<size_t>(quote.size(), in.u8()));
        if (!quote.empty()) quote[in.u8() % quote.size()] = in.u8();
        bed.in({too_big(lo, in.u16(), quote)});
        break;
      }
      default: bed.advance(std::chrono::milliseconds(in.u8() * 8)); break;
    }
    for (const Decoded& d : bed.outside()) {
      fuzz_check(d.ip_ok && d.checksum_ok, "a report that isn't a good packet");
      const auto r = fpmtud::parse_report(fpmtud::Bytes(d.l4).subspan(8), nullptr);
      fuzz_check(r.has_value(), "something left that is no report");
      fuzz_check(r->fragment <= r->size && r->size <= 9500, "a report of what can't be");
    }
    Report r;
    while (box.take(r))
      fuzz_check(r.kind != Report::Kind::kAnswer || r.length == fpmtud::kReportBytes, "a report's length");
  }
  const std::string wrong = bed.check_balance();
  fuzz_check(wrong.empty(), wrong);
  return 0;
}
