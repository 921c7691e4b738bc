// SPDX-License-Identifier: BSD-3-Clause
// What isn't translated leaves bit for bit, both ways.
#include "tests/support/checks.h"

using namespace test;

namespace {

std::vector<Frame> strange_frames() {
  std::vector<Frame> r;
  const auto ethernet = [&](unsigned type, size_t len) {
    Frame f{Bytes(14 + len)};
    for (size_t i = 0; i < f.bytes.size(); ++i) f.bytes[i] = static_cast<uint8_t>(2 + i * 7);
    f.bytes[12] = static_cast<uint8_t>(type >> 8);
    f.bytes[13] = static_cast<uint8_t>(type);
    r.push_back(f);
  };
  ethernet(0x0806, 46);  // ARP
  ethernet(0x88cc, 200);  // LLDP
  ethernet(0x0026, 38);  // 802.3 with a length: spanning tree
  ethernet(0x8847, 100);  // MPLS
  ethernet(0x8863, 60);  // PPPoE
  ethernet(0x0800, 0);    // announces IPv4 and ends
  ethernet(0x0800, 19);
  ethernet(0x86dd, 39);
  ethernet(0x8100, 2);
  r.push_back(Frame{Bytes(1, 0x45)});
  r.push_back(Frame{Bytes(13, 0x45)});

  for (const int version : {4, 6}) {
    const Flow flow({version, 0, true});
    Tcp t = flow.in(0, 200);
    const size_t l3 = flow.v4() ? 20 : 40;
    for (uint8_t proto : {0, 2, 4, 17, 33, 41, 47, 50, 51, 88, 89, 103, 112, 132, 136, 253}) {
      if (!flow.v4() && (proto == 0)) continue;
      r.push_back(Frame{ip_frame(t.lower, proto, t.l4())});
    }
    r.push_back(Tcp(t).option({5, 0}));
    r.push_back(Tcp(t).option({1, 1, 1, 8}));
    r.push_back(Tcp(t).option({30, 4, 0, 0}));
    r.push_back(Tcp(t).data_offset(0));
    r.push_back(Tcp(t).data_offset(4));
    r.push_back(Tcp(t).bytes({1, 2, 3, 4}).data_offset(15));
    r.push_back(Tcp(t).flags(0));
    r.push_back(Tcp(t).flags(0xfff));
    r.push_back(Tcp(t).flags(SYN | FIN));
    r.push_back(Tcp(t).flags(FIN | PSH | URG));
    r.push_back(Tcp(t).pad_to(400));
    Frame cut = t;
    cut.bytes.resize(cut.bytes.size() - 1);
    r.push_back(cut);
    cut.bytes.resize(14 + l3 + 10);
    r.push_back(cut);
    Frame longer = t;  // IP says less than the headers need
    longer.bytes[14 + (flow.v4() ? 3 : 5)] = 30;
    longer.bytes[14 + (flow.v4() ? 2 : 4)] = 0;
    r.push_back(longer);
    if (flow.v4()) {
      Frame wrong = t;
      wrong.bytes[14 + 10] ^= 1;
      r.push_back(wrong);
      for (size_t words = 1; words <= 10; ++words) {
        Tcp o = t;
        o.lower.ip_options = Bytes(words * 4, 1);
        r.push_back(o);
      }
      for (unsigned ihl = 0; ihl < 5; ++ihl) {
        Frame f = t;
        f.bytes[14] = static_cast<uint8_t>(0x40 | ihl);
        r.push_back(f);
      }
      Tcp f = t;
      f.lower.df = false;
      f.lower.mf = true;
      r.push_back(f);
      f.lower.mf = false;
      f.lower.frag_offset = 185;
      r.push_back(f);
    } else {
      Tcp e = t;
      Bytes ext(24);
      ext[1] = 2;
      for (uint8_t type : {0, 43, 60}) {
        e.lower.extensions = {{type, ext}};
        r.push_back(e);
        e.lower.extensions.push_back({44, Bytes(8)});
        r.push_back(e);
      }
      e.lower.extensions = {{51, Bytes(12)}};
      r.push_back(e);
      for (uint8_t more : {0, 1}) {
        e.lower.extensions = {{44, {0, 0, 0, more, 0, 0, 0, 1}}};
        r.push_back(e);
      }
      Frame zero = t;
      zero.bytes[18] = zero.bytes[19] = 0;
      r.push_back(zero);
    }
    // VXLAN and GRE with a segment inside that would merge.
    const Frame inner = flow.in(0, flow.full());
    Lower lo = t.lower;
    Frame vxlan = udp(lo, 1234, 4789, 0);
    vxlan.bytes.insert(vxlan.bytes.end(), inner.bytes.begin(), inner.bytes.end());
    r.push_back(vxlan);
    Bytes gre = {0, 0, 0x65, 0x58};
    gre.insert(gre.end(), inner.bytes.begin(), inner.bytes.end());
    gre.resize(1400);
    r.push_back(Frame{ip_frame(lo, 47, gre)});
    Tcp three = t;
    r.push_back(three.vlan(1).vlan(2).vlan(3));
  }
  return r;
}

}  // namespace

TEST_CASE("Untouched: malformed, foreign and contradictory frames pass bit for bit", "[untouched]") {
  const auto frames = strange_frames();
  const bool known = GENERATE(false, true);
  for (const auto d : {pxio::Direction::kInbound, pxio::Direction::kOutbound}) {
    Bed bed;
    if (known) {
      bed.open(Flow({4, 0, true}));
      bed.open(Flow({6, 0, true}));
    }
    for (size_t i = 0; i < frames.size(); ++i) {
      INFO("frame " << i << " " << to_hex(frames[i].bytes));
      bed.process(d, {frames[i]});
      const auto out = d == pxio::Direction::kInbound ? bed.inside() : bed.outside();
      check_untouched(out, {frames[i]});
    }
  }
}

TEST_CASE("Untouched: headers cut over a chain pass with the same bytes", "[untouched]") {
  for (const uint32_t cut : {13u, 20u, 33u, 53u}) {
    Bed bed;
    for (Frame f : strange_frames()) {
      f.cuts = {cut, cut + 1, cut + 7};
      check_untouched(bed.merge({f}), {f});
      bed.out({f});
      check_untouched(bed.outside(), {f});
    }
  }
}

TEST_CASE("Untouched: SYN look-alikes of other protocols keep their bytes", "[untouched]") {
  // SCTP whose bytes look like a SYN with an MSS option.
  const Flow flow({GENERATE(4, 6), 0, false});
  Bed bed;
  const Tcp s = flow.syn();
  const std::vector<Frame> p = {Frame{ip_frame(s.lower, 132, s.l4())}};
  bed.out(p);
  check_untouched(bed.outside(), p);
}

TEST_CASE("Untouched: frames of fragments inbound keep their order with the flow", "[untouched]") {
  const Flow flow({4, 0, true});
  Bed bed;
  const uint32_t at = bed.open_bulk(flow);
  const uint32_t f = flow.full();
  Tcp frag = flow.in(at + 2 * f, f);
  frag.lower.df = false;
  frag.lower.mf = true;
  bed.in({flow.in(at, f), flow.in(at + f, f)});
  CHECK(bed.inside().empty());
  const auto out = bed.merge({frag});
  REQUIRE(out.size() == 2);
  CHECK(out[0].payload.size() == 2 * f);
  check_untouched({out[1]}, {frag});
}

TEST_CASE("Untouched: every reason has its counter", "[untouched]") {
  const Flow flow({4, 0, true});
  Bed bed;
  bed.open(flow);
  const auto c0 = bed.count();
  const auto once = [&](const Frame& f, uint64_t pxgw::Counters::*which) {
    const uint64_t before = bed.count().*which;
    bed.in({f});
    CHECK(bed.count().*which == before + 1);
    bed.forget();
  };
  Frame arp{Bytes(60)};
  arp.bytes[12] = 8, arp.bytes[13] = 6;
  once(arp, &pxgw::Counters::pass_not_ip);
  once(udp(flow.in().lower, 1, 2, 10), &pxgw::Counters::pass_not_tcp);
  Tcp frag = flow.in(0, 100);
  frag.lower.mf = true;
  once(frag, &pxgw::Counters::pass_fragment);
  Tcp opt = flow.in(0, 100);
  opt.lower.ip_options = {1, 1, 1, 1};
  once(opt, &pxgw::Counters::pass_ip_options);
  Frame sum = flow.in(0, 100);
  sum.bytes[24] ^= 1;
  once(sum, &pxgw::Counters::pass_ip_checksum);
  Frame cut = flow.in(0, 100);
  cut.bytes.pop_back();
  once(cut, &pxgw::Counters::pass_cut_short);
  once(flow.in(0, 1).data_offset(15), &pxgw::Counters::pass_lengths);
  once(flow.in(0, 100).flags(ACK | URG), &pxgw::Counters::pass_tcp_flags);
  once(flow.in(0), &pxgw::Counters::pass_tcp_pure_ack);
  once(flow.in(0, 100).option({30, 4, 0, 0}), &pxgw::Counters::pass_tcp_options);
  once(flow.in(0, 100).option({29, 4, 0, 0}), &pxgw::Counters::pass_tcp_signed);
  CHECK(bed.count().in_pkts - c0.in_pkts == 11);
}
