// SPDX-License-Identifier: BSD-3-Clause
// A port outside that carries 9000 B, and paths that may not: what leaves, what is offered, what lowers and
// raises it, and which flows are reported to be probed.
#include "tests/support/checks.h"

using namespace test;
using pxgw::Command;
using pxgw::Mailbox;
using pxgw::PathKey;
using pxgw::Report;
using namespace std::chrono_literals;

namespace {

pxgw::Policy wide(bool probe = true) {
  pxgw::Policy p;
  p.outside_mtu = 9000;
  p.assumed_mtu = 1500;
  p.probing.probe = probe;
  p.probing.elephant_bytes = 65536;
  return p;
}

PathKey key_of(const Addr& a, int version) { return PathKey::of(static_cast<uint8_t>(version), a.data()); }
PathKey outside_of(const Flow& f) { return key_of(f.outside, f.shape.version); }

// A flow whose ends both take jumbos.
Flow jumbo_flow(Shape shape, uint16_t number = 1) {
  Flow f(shape, number);
  f.outside_mss = f.inside_mss;
  return f;
}

size_t piece_for(const Flow& flow, size_t mtu) { return mtu - flow.ip_len() - 20u - flow.ts_len(); }

struct Gate {
  Mailbox box;
  Bed bed;
  explicit Gate(const pxgw::Policy& policy = wide()) : bed(policy) { bed.gateway().connect(box, 3); }
  void tell(Command::Kind kind, const PathKey& to, uint16_t mtu = 0) {
    bed.gateway().command({.kind = kind, .mtu = mtu, .to = to}, bed.now());
  }
  void confirm(const Flow& f, uint16_t mtu) {
    tell(Command::Kind::kConfirm, outside_of(f), mtu);
    bed.housekeeping(64);  // flows learn of it
  }
  std::vector<Report> reports() {
    std::vector<Report> all;
    Report r;
    while (box.take(r)) all.push_back(r);
    return all;
  }
  unsigned count(Report::Kind kind) {
    unsigned n = 0;
    for (const Report& r : reports()) n += r.kind == kind;
    return n;
  }
  unsigned offered(const Flow& f) {
    bed.out({f.syn()});
    const auto out = bed.outside();
    return out.size() == 1 ? out[0].mss() : 0;
  }
};

}  // namespace

TEST_CASE("Sizes: a path that wasn't probed carries what is assumed, whatever the port takes", "[paths]") {
  const Flow flow = jumbo_flow({GENERATE(4, 6), 0, true});
  Gate g;
  CHECK(g.offered(flow) == 1500 - flow.ip_len() - 20u);
  g.bed.open(flow);
  const Tcp t = flow.out(0, flow.jumbo());
  g.bed.out({t});
  check_split(g.bed.outside(), t, piece_for(flow, 1500));
  // UDP is cut where it may be, its sender told where not.
  Lower lo = flow.out().lower;
  lo.df = true;
  g.bed.out({udp(lo, 4000, 5000, 8000)});
  CHECK(g.bed.outside().empty());
  const auto told = g.bed.inside();
  REQUIRE(told.size() == 1);
  const auto at = static_cast<long>(flow.v4() ? 6 : 4);
  CHECK(told[0].l4[static_cast<size_t>(at)] * 256 + told[0].l4[static_cast<size_t>(at) + 1] ==
        (flow.v4() ? 1500 : 0));
  if (flow.v4()) {
    lo.df = false;
    g.bed.out({udp(lo, 4000, 5000, 8000)});
    const auto cut = g.bed.outside();
    CHECK(cut.size() == 6);
    for (const Decoded& d : cut) CHECK(d.ip_len <= 1500);
  }
}

TEST_CASE("Sizes: a confirmed path takes jumbos unsplit and is offered the larger MSS", "[paths]") {
  const Flow flow = jumbo_flow({GENERATE(4, 6), GENERATE(0, 1), GENERATE(true, false)});
  Gate g;
  g.confirm(flow, 9000);
  CHECK(g.offered(flow) == 9000 - flow.ip_len() - 20u);
  g.bed.open(flow);
  const Tcp t = flow.out(0, flow.jumbo());
  g.bed.out({t});
  const auto out = g.bed.outside();
  REQUIRE(out.size() == 1);
  CHECK(out[0].frame == t.build().bytes);
  Lower lo = flow.out().lower;
  g.bed.out({udp(lo, 4000, 5000, 8000)});
  CHECK(g.bed.outside().size() == 1);
  SECTION("not beyond what the other end advertised") {
    Flow small(flow.shape, 7);
    small.outside = flow.outside;
    g.bed.open(small);
    const Tcp u = small.out(0, 8000);
    g.bed.out({u});
    check_split(g.bed.outside(), u, piece_for(small, 1500));
  }
  SECTION("other destinations have nothing of it") {
    const Flow other = jumbo_flow(flow.shape, 9);
    CHECK(g.offered(other) == 1500 - flow.ip_len() - 20u);
  }
  SECTION("until it is flushed") {
    g.tell(Command::Kind::kForget, {});
    CHECK(g.offered(flow) == 1500 - flow.ip_len() - 20u);
  }
  SECTION("until its time is over") {
    g.bed.advance(601s);
    CHECK(g.offered(flow) == 1500 - flow.ip_len() - 20u);
  }
}

TEST_CASE("Sizes: a confirmed path between the steps, or below what is assumed", "[paths]") {
  const Flow flow = jumbo_flow({GENERATE(4, 6), 0, true});
  const auto mtu = GENERATE(as<uint16_t>(), 1400, 4352);
  Gate g;
  g.confirm(flow, mtu);
  CHECK(g.offered(flow) == mtu - flow.ip_len() - 20u);
  g.bed.open(flow);
  const Tcp t = flow.out(0, 8900);
  g.bed.out({t});
  check_split(g.bed.outside(), t, piece_for(flow, mtu));
}

TEST_CASE("Sizes: an error lowers a confirmed path at once, for what is sent and what is offered", "[paths]") {
  const Flow flow = jumbo_flow({GENERATE(4, 6), 0, true});
  Gate g;
  g.confirm(flow, 9000);
  g.bed.open(flow);
  g.bed.out({flow.out(0, flow.jumbo())});
  const auto sent = g.bed.outside();
  REQUIRE(sent.size() == 1);
  Lower lo = flow.in().lower;
  Bytes quote = sent[0].ip();
  quote.resize(flow.ip_len() + 8u);
  g.bed.in({too_big(lo, 1500, quote)});
  CHECK(g.bed.inside().empty());
  CHECK(g.count(Report::Kind::kLowered) == 1);
  const Tcp t = flow.out(flow.jumbo(), flow.jumbo());
  g.bed.out({t});
  check_split(g.bed.outside(), t, piece_for(flow, 1500));
  CHECK(g.offered(flow) == 1500 - flow.ip_len() - 20u);
}

TEST_CASE("Sizes: a timeout on a path above the assumed lowers it at once, and that segment gets through",
          "[paths]") {
  const Flow flow = jumbo_flow({GENERATE(4, 6), 0, true});
  Gate g;
  g.confirm(flow, 9000);
  g.bed.open(flow);
  g.bed.advance(2s);  // after the probe
  const Tcp t = flow.out(0, flow.jumbo());
  g.bed.out({t, flow.out(flow.jumbo(), flow.jumbo())});
  CHECK(g.bed.outside().size() == 2);
  for (int i = 0; i < 4; ++i) {  // new data goes on, as a wide window lets it
    g.bed.advance(50ms);
    g.bed.out({flow.out((2u + static_cast<uint32_t>(i)) * flow.jumbo(), flow.jumbo())});
  }
  g.bed.forget();
  g.bed.out({t});
  check_split(g.bed.outside(), t, piece_for(flow, 1500));
  const auto reports = g.reports();
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].kind == Report::Kind::kLowered);
  CHECK(reports[0].mtu == 1500);
  CHECK(reports[0].pair == 3);
  CHECK(reports[1].kind == Report::Kind::kElephant);  // to be measured anew
  // It goes on down where that doesn't help.
  g.bed.out({t});
  g.bed.forget();
  g.bed.out({t});
  check_split(g.bed.outside(), t, piece_for(flow, 1400));
}

TEST_CASE("Sizes: a lost jumbo gets through split; others that arrive keep the path", "[paths]") {
  const Flow flow = jumbo_flow({4, 0, true});
  Gate g;
  g.confirm(flow, 9000);
  g.bed.open(flow);
  const Tcp t = flow.out(0, flow.jumbo());
  const bool old = GENERATE(false, true);
  if (old) g.bed.advance(11s);
  g.bed.out({t, flow.out(flow.jumbo(), flow.jumbo())});
  SECTION("others are acknowledged") {
    g.bed.advance(200ms);
    for (int i = 0; i < 3; ++i) g.bed.in({flow.in().ack(t.seq_no)});
    g.bed.advance(20ms);
  }
  SECTION("data comes in") {
    g.bed.advance(200ms);
    g.bed.in({flow.in(0, 1000).ack(t.seq_no)});
    g.bed.advance(20ms);
  }
  SECTION("it comes again before a timeout: a tail probe") {
    g.bed.in({flow.in().ack(t.seq_no)});
    g.bed.advance(20ms);
  }
  g.bed.forget();
  g.bed.out({t});
  check_split(g.bed.outside(), t, piece_for(flow, 1500));
  const auto reports = g.reports();
  CHECK(reports.size() == (old ? 1 : 0));  // a probe will tell, if the last one wasn't just now
  for (const Report& r : reports) CHECK(r.kind == Report::Kind::kElephant);
  const Tcp next = flow.out(3u * flow.jumbo(), flow.jumbo());
  g.bed.out({next});
  CHECK(g.bed.outside().size() == 1);
}

TEST_CASE("probing: a flow is reported once it has sent enough, with the way to its destination", "[paths]") {
  const Flow flow = jumbo_flow({GENERATE(4, 6), GENERATE(0, 2), true});
  Gate g;
  g.bed.open(flow);
  uint32_t at = 0;
  const auto send = [&](int packets) {
    for (int i = 0; i < packets; ++i, at += 8000) {
      g.bed.out({flow.out(at, 8000)});
      g.bed.housekeeping(8);
    }
    g.bed.forget();
  };
  send(8);
  CHECK(g.reports().empty());
  send(3);
  const auto reports = g.reports();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].kind == Report::Kind::kElephant);
  CHECK(reports[0].to == outside_of(flow));
  CHECK(reports[0].from == key_of(flow.inside, flow.shape.version));
  const Bytes frame = flow.out(at, 10).build().bytes;
  REQUIRE(reports[0].length == 14u + 4u * static_cast<unsigned>(flow.shape.tags));
  CHECK(std::equal(frame.begin(), frame.begin() + reports[0].length, reports[0].bytes.begin()));
  SECTION("not again while an answer may come") {
    send(20);
    CHECK(g.reports().empty());
  }
  SECTION("not again where nobody answers, until some minutes have gone by") {
    g.tell(Command::Kind::kSilent, outside_of(flow));
    g.bed.advance(200s);
    send(20);
    CHECK(g.reports().empty());
    g.bed.advance(200s);
    send(2);
    CHECK(g.reports().size() == 1);
  }
  SECTION("again when half of what a probe said has aged") {
    g.tell(Command::Kind::kConfirm, outside_of(flow), 9000);
    g.bed.advance(299s);
    send(2);
    CHECK(g.reports().empty());
    g.bed.advance(5s);
    send(2);
    CHECK(g.reports().size() == 1);
  }
}

TEST_CASE("probing: who receives much is reported as well, and who asks is answered sooner", "[paths]") {
  const Flow flow = jumbo_flow({4, 0, true});
  Gate g;
  g.bed.open(flow);
  SECTION("by bytes that come in") {
    for (uint32_t at = 0; at < 80000; at += 8000) g.bed.in({flow.in(at, 8000)});
  }
  SECTION("by request") { g.tell(Command::Kind::kWatchFor, outside_of(flow)); }
  g.bed.housekeeping(8);
  g.bed.out({flow.out().ack(flow.in(80000).seq_no)});
  CHECK(g.reports().size() == 1);
  g.bed.housekeeping(8);
  g.bed.out({flow.out().ack(flow.in(80000).seq_no)});
  CHECK(g.reports().empty());
}

TEST_CASE("probing: off, nothing is reported", "[paths]") {
  const Flow flow = jumbo_flow({4, 0, true});
  Gate g(wide(false));
  g.bed.open(flow);
  for (uint32_t at = 0; at < 200000; at += 8000) {
    g.bed.out({flow.out(at, 8000)});
    g.bed.housekeeping(8);
  }
  CHECK(g.reports().empty());
}

TEST_CASE("probing: a packet from control leaves outside and is accounted for", "[paths]") {
  Gate g;
  const Flow flow = jumbo_flow({4, 0, true});
  pxio::PktPtr p = udp(flow.out().lower, 4000, 7474, 8000).bytes.empty()
                       ? pxio::PktPtr()
                       : to_mbuf(udp(flow.out().lower, 4000, 7474, 8000), pools().buffers());
  g.bed.gateway().command({.kind = Command::Kind::kTransmit, .pkt = p.release()}, g.bed.now());
  g.bed.flush_tx();
  REQUIRE(g.bed.outside().size() == 1);
  CHECK(g.bed.count().probe_sent == 1);
}
