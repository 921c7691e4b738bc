// SPDX-License-Identifier: BSD-3-Clause
// Any TCP traffic through merge, split and both in a row, against the model. A failure prints how to
// repeat it: RC_PARAMS="reproduce=..." or "seed=..." in the environment.
#include <catch2/catch.hpp>
#include <map>
#include <rapidcheck.h>

#include "pxgw/ctl/stats.h"
#include "tests/prop/model.h"
#include "tests/prop/traffic.h"
#include "tests/support/bed.h"

using namespace test;
using pxio::Direction;

namespace {

rc::Gen<std::vector<Step>> traffic() {
  // Most steps belong to few flows, as they do on a link.
  const auto flow = rc::gen::weightedElement<int>({{6, 0}, {4, 1}, {2, 2}, {2, 3}, {1, 4}, {1, 5}});
  const auto step = rc::gen::apply([](int f, int kind, uint32_t dice) { return Step{f, kind, dice}; }, flow,
                                   rc::gen::inRange(0, 100), rc::gen::noShrink(rc::gen::arbitrary<uint32_t>()));
  return rc::gen::scale(2.0, rc::gen::container<std::vector<Step>>(step));
}

// Packets between the same two hosts, one way: fragments have no ports to go by.
using Line = std::pair<Addr, Addr>;
using Inputs = std::map<Line, std::vector<Input>>;
using Outputs = std::map<Line, std::vector<Decoded>>;

Outputs by_line(const std::vector<Decoded>& out) {
  Outputs r;
  for (const Decoded& d : out)
    if (d.proto == 6 || d.proto == 44 || d.proto == 60) r[{d.src, d.dst}].push_back(d);
  return r;
}

struct Run {
  Inputs in[2];
  std::vector<Decoded> inside, outside;
};

// Sends what `sent` says, in bursts.
Run drive(Bed& bed, const std::vector<Sent>& sent) {
  Run run;
  std::vector<Frame> burst;
  Direction dir = Direction::kInbound;
  const auto flush = [&] {
    bed.process(dir, burst);
    burst.clear();
  };
  for (const Sent& s : sent) {
    if (s.new_burst || s.wait.count() != 0 || s.dir != dir || burst.size() == pxio::kBurst) flush();
    dir = s.dir;
    bed.advance(s.wait);
    Decoded d = decode(s.frame.bytes);
    if ((s.frame.ol_flags & RTE_MBUF_F_RX_LRO) != 0) d.segsz = s.frame.segsz;
    auto& line = run.in[pxio::index(dir)][{d.src, d.dst}];
    if (s.parts.empty())
      line.push_back({d, bed.now(), (s.frame.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_BAD) != 0});
    for (const Frame& part : s.parts) line.push_back({decode(part.bytes), bed.now(), false, true});
    burst.push_back(s.frame);
  }
  flush();
  bed.advance(std::chrono::milliseconds(1));
  run.inside = bed.inside();
  run.outside = bed.outside();
  return run;
}

void must_be_empty(const std::string& wrong) {
  if (!wrong.empty()) RC_FAIL(wrong);
}

MergeRules merge_rules(const Peer& p, const pxgw::Policy& policy) { return {p.merge_max, policy.hold_limit}; }
SplitRules split_rules(const Peer& p) { return {p.split_mtu, p.split_mss, p.cwr_everywhere}; }

void check_inbound(const Run& run, const std::vector<Peer>& peers, const pxgw::Policy& policy) {
  const Outputs out = by_line(run.inside);
  for (const Peer& p : peers) {
    const Line line{p.flow.outside, p.flow.inside};
    const auto i = run.in[0].find(line);
    const auto o = out.find(line);
    must_be_empty(explain_merge(i == run.in[0].end() ? std::vector<Input>{} : i->second,
                                o == out.end() ? std::vector<Decoded>{} : o->second, merge_rules(p, policy)));
  }
}

void check_outbound(const Run& run, const std::vector<Peer>& peers) {
  const Outputs out = by_line(run.outside);
  for (const Peer& p : peers) {
    const Line line{p.flow.inside, p.flow.outside};
    const auto i = run.in[1].find(line);
    const auto o = out.find(line);
    must_be_empty(explain_split(i == run.in[1].end() ? std::vector<Input>{} : i->second,
                                o == out.end() ? std::vector<Decoded>{} : o->second, split_rules(p)));
  }
}

// The flow with its ends swapped: what comes out of one gateway's inside goes into another's.
Flow mirrored(Flow f) {
  std::swap(f.inside, f.outside);
  std::swap(f.inside_port, f.outside_port);
  std::swap(f.inside_isn, f.outside_isn);
  std::swap(f.inside_mss, f.outside_mss);
  f.opener = f.opener == Opener::kInside ? Opener::kOutside : Opener::kInside;
  return f;
}

void open_all(Bed& bed, const std::vector<Peer>& peers) {
  for (const Peer& p : peers)
    if (p.opened) bed.open(p.flow);
}

void check_balance(Bed& bed) { must_be_empty(bed.check_balance()); }

// Like rc::check, with more rounds unless RC_PARAMS says how many.
template <typename F>
void property(const char* name, int rounds, F f) {
  rc::detail::TestMetadata about;
  about.id = name;
  about.description = name;
  auto params = rc::detail::configuration().testParams;
  if (params.maxSuccess == 100) params.maxSuccess = rounds;
  const auto result = rc::detail::checkTestable(f, about, params);
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  std::cout << name << ": seed " << params.seed << ", " << text.str() << std::endl;
  INFO(text.str());
  CHECK(result.template is<rc::detail::SuccessResult>());
}

}  // namespace

TEST_CASE("Any traffic: merge and split against the model", "[prop]") {
  const auto peers = make_peers();
  uint64_t merged = 0, split = 0;
  property("merge and split", 2500, [&] {
    const auto steps = *traffic();
    pxgw::Policy policy;
    Bed bed(policy);
    open_all(bed, peers);
    const Run run = drive(bed, make_traffic(peers, steps));
    check_inbound(run, peers, policy);
    check_outbound(run, peers);
    check_balance(bed);
    merged += bed.count().engine.merge_out_merged;
    split += bed.count().engine.split_in_pkts;
  });
  // The traffic must be such that there is something to see.
  CHECK(merged > 100);
  CHECK(split > 100);
}

TEST_CASE("Any traffic: other limits, small tables, longer holds", "[prop]") {
  const auto peers = make_peers();
  property("other limits", 1200, [&] {
    const auto steps = *traffic();
    pxgw::Policy policy;
    policy.hold_limit = std::chrono::microseconds(*rc::gen::element(0, 10, 1000));
    policy.max_merge_segs = *rc::gen::element<uint16_t>(2, 3, 5, 64);
    pxgw::Capacity capacity = small_capacity();
    capacity.held = *rc::gen::element(1u, 2u, 64u);
    Bed bed(policy, capacity);
    open_all(bed, peers);
    const Run run = drive(bed, make_traffic(peers, steps));
    check_inbound(run, peers, policy);
    check_outbound(run, peers);
    check_balance(bed);
  });
}

TEST_CASE("Any traffic: what one gateway merged, another splits into the same stream", "[prop]") {
  auto peers = make_peers();
  std::vector<Peer> far;
  for (const Peer& p : peers) {
    Peer q = p;
    q.flow = mirrored(p.flow);
    q.split_mss = std::min<size_t>(q.flow.outside_mss, p.flow.v4() ? 1460 : 1440);
    far.push_back(q);
  }
  property("merge, then split", 1000, [&] {
    const auto steps = *traffic();
    pxgw::Policy policy;
    Bed bed(policy);
    open_all(bed, peers);
    const Run run = drive(bed, make_traffic(peers, steps));
    check_balance(bed);
    Bed other(policy);
    open_all(other, far);
    std::vector<Sent> again;
    for (const Decoded& d : run.inside)
      if (d.proto == 6 || d.proto == 44 || d.proto == 60)
        again.push_back({Direction::kOutbound, 0, Frame{d.frame}, pxio::Nanos(0), false});
    const Run back = drive(other, again);
    check_outbound(back, far);
    check_balance(other);
    // Every byte still says where it belongs, unless it was damaged before.
    for (const Decoded& d : back.outside) {
      if (!d.tcp) continue;
      for (const Peer& p : peers) {
        if (p.flow.outside != d.src) continue;
        const uint32_t seed = p.flow.in().seed;
        for (size_t i = 0; i < d.payload.size(); ++i)
          RC_ASSERT(d.payload[i] == stream_byte(seed, d.seq + static_cast<uint32_t>(i)));
      }
    }
  });
}

TEST_CASE("Any traffic: what one gateway split, another merges into the same stream", "[prop]") {
  auto peers = make_peers();
  std::vector<Peer> far;
  for (const Peer& p : peers) {
    Peer q = p;
    q.flow = mirrored(p.flow);
    q.flow.inside_mss = p.flow.v4() ? 8960 : 8940;
    q.merge_max = p.opened ? 9000 : 0;
    far.push_back(q);
  }
  property("split, then merge", 1000, [&] {
    const auto steps = *traffic();
    pxgw::Policy policy;
    Bed bed(policy);
    open_all(bed, peers);
    const Run run = drive(bed, make_traffic(peers, steps));
    check_balance(bed);
    Bed other(policy);
    open_all(other, far);
    std::vector<Sent> again;
    pxio::Nanos last = run.outside.empty() ? pxio::Nanos(0) : run.outside.front().time;
    for (const Decoded& d : run.outside) {
      if (d.proto == 6 || d.proto == 44 || d.proto == 60)
        again.push_back({Direction::kInbound, 0, Frame{d.frame}, d.time - last, false});
      last = d.time;
    }
    const Run back = drive(other, again);
    check_inbound(back, far, policy);
    check_balance(other);
  });
}

// A port that takes jumbos before paths that aren't known is for what leaves a port of 1500 B.
TEST_CASE("Any traffic: a wide port sends what the assumed path takes", "[prop]") {
  const auto peers = make_peers();
  uint64_t split = 0;
  property("wide port, narrow paths", 1000, [&] {
    const auto steps = *traffic();
    const std::vector<Sent> sent = make_traffic(peers, steps);
    std::vector<Decoded> out[2];
    for (int wide = 0; wide < 2; ++wide) {
      pxgw::Policy policy;
      if (wide == 1) {
        policy.outside_mtu = 9000;
        policy.assumed_mtu = 1500;
      }
      Bed bed(policy);
      open_all(bed, peers);
      const Run run = drive(bed, sent);
      check_outbound(run, peers);
      check_balance(bed);
      out[wide] = run.outside;
      split += bed.count().engine.split_in_pkts;
    }
    RC_ASSERT(out[0].size() == out[1].size());
    for (size_t i = 0; i < out[0].size(); ++i) RC_ASSERT(out[0][i].frame == out[1][i].frame);
  });
  CHECK(split > 100);
}

// Segments in one buffer take the short way through the gateway, those whose headers lie in two don't.
TEST_CASE("Any traffic: the short way does what the long one does", "[prop]") {
  const auto peers = make_peers();
  uint64_t merged = 0;
  property("short way, long way", 1500, [&] {
    const auto steps = *traffic();
    pxgw::Policy policy;
    std::vector<Sent> sent = make_traffic(peers, steps);
    Run runs[2];
    std::string counts[2];
    for (int way = 0; way < 2; ++way) {
      Bed bed(policy);
      open_all(bed, peers);
      if (way == 1)
        for (Sent& s : sent)
          if (s.frame.cuts.empty() && s.frame.bytes.size() > 40) s.frame.cuts = {30};
      runs[way] = drive(bed, sent);
      check_balance(bed);
      counts[way] = pxgw::to_json(bed.count()).dump();
      merged += bed.count().engine.merge_out_merged;
    }
    RC_ASSERT(counts[0] == counts[1]);
    for (const auto side : {&Run::inside, &Run::outside}) {
      const auto &a = runs[0].*side, &b = runs[1].*side;
      RC_ASSERT(a.size() == b.size());
      for (size_t i = 0; i < a.size(); ++i) {
        RC_ASSERT(a[i].frame == b[i].frame);
        RC_ASSERT(a[i].time == b[i].time);
      }
    }
  });
  CHECK(merged > 100);
}
