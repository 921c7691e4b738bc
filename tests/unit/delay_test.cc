// SPDX-License-Identifier: BSD-3-Clause
// How long packets are held, and which.
#include "tests/support/checks.h"

using namespace test;
using namespace std::chrono_literals;

TEST_CASE("Delay: a lone segment leaves with its burst", "[delay]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  SECTION("full size, then silence") {
    bed.in(flow.run(0, 1));
    CHECK(bed.inside().size() == 1);
  }
  SECTION("small ones, a millisecond apart") {
    for (uint32_t i = 0; i < 10; ++i) {
      bed.in({flow.in(i * 100, 100)});
      CHECK(bed.inside().size() == 1);
      bed.advance(1ms);
    }
  }
  SECTION("one byte each way") {
    for (uint32_t i = 0; i < 10; ++i) {
      bed.in({flow.in(i, 1)});
      CHECK(bed.inside().size() == 1);
      bed.out({flow.out(i, 1)});
      CHECK(bed.outside().size() == 1);
      bed.advance(20us);
    }
  }
  CHECK(!bed.gateway().next_deadline());
}

TEST_CASE("Delay: full segments far apart aren't held", "[delay]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  uint32_t at = bed.open_bulk(flow);
  for (int i = 0; i < 30; ++i) {
    bed.advance(1ms);
    bed.in(flow.run(at, 1));
    at += flow.full();
    const size_t n = bed.inside().size();
    if (i >= 5) CHECK(n == 1);
  }
}

TEST_CASE("Delay: in bulk transfer a packet is held for the limit, and no longer", "[delay]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  pxgw::Policy policy;
  policy.hold_limit = GENERATE(20us, 50us, 200us);
  Bed bed(policy);
  const uint32_t at = bed.open_bulk(flow);
  const auto since = bed.now();
  bed.in(flow.run(at, 2));
  CHECK(bed.inside().empty());
  REQUIRE(bed.gateway().next_deadline());
  CHECK(*bed.gateway().next_deadline() == since + policy.hold_limit);
  bed.advance(policy.hold_limit - 1ns);
  CHECK(bed.inside().empty());
  bed.advance(1ns);
  const auto out = bed.inside();
  REQUIRE(out.size() == 1);
  CHECK(out[0].time - since <= policy.hold_limit);
  CHECK(bed.count().engine.merge_end_hold == 1);
  CHECK(!bed.gateway().next_deadline());
}

TEST_CASE("Delay: the limit counts from the first segment of a merge", "[delay]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  uint32_t at = bed.open_bulk(flow);
  const auto since = bed.now();
  for (int i = 0; i < 5; ++i) {
    bed.in(flow.run(at, 1));
    at += flow.full();
    bed.advance(15us);
  }
  const auto out = bed.inside();
  REQUIRE(!out.empty());
  CHECK(out[0].time == since + 50us);
}

TEST_CASE("Delay: segments of several bursts merge", "[delay]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  uint32_t at = bed.open_bulk(flow);
  std::vector<Tcp> parts;
  for (uint32_t i = 0; i < 6; ++i) {
    parts.push_back(flow.in(at, flow.full()));
    at += flow.full();
    bed.in({parts.back()});
    bed.advance(5us);
  }
  const auto out = bed.inside();
  REQUIRE(out.size() == 1);
  check_merged(out[0], parts);
}

TEST_CASE("Delay: a segment that isn't full ends the wait", "[delay]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  const uint32_t at = bed.open_bulk(flow);
  bed.in(flow.run(at, 2));
  CHECK(bed.inside().empty());
  bed.in({flow.in(at + 2u * flow.full(), 500)});
  const auto out = bed.inside();
  REQUIRE(out.size() == 1);
  CHECK(out[0].payload.size() == 2u * flow.full() + 500);
}

TEST_CASE("Delay: with a limit of nothing, everything leaves with its burst", "[delay]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  pxgw::Policy policy;
  policy.hold_limit = 0us;
  Bed bed(policy);
  uint32_t at = bed.open_bulk(flow);
  for (int i = 0; i < 5; ++i) {
    bed.in(flow.run(at, 3));
    at += 3u * flow.full();
    CHECK(bed.inside().size() == 1);
    CHECK(!bed.gateway().next_deadline());
  }
}

TEST_CASE("Delay: many flows in bulk transfer expire in the order of their holds", "[delay]") {
  Bed bed;
  std::vector<Flow> flows;
  std::vector<uint32_t> at;
  for (uint16_t i = 0; i < 20; ++i) flows.emplace_back(Shape{i % 2 != 0 ? 4 : 6, 0, true}, i);
  for (const Flow& f : flows) {
    at.push_back(bed.open_bulk(f));
  }
  std::vector<std::chrono::nanoseconds> since;
  // Bulk scores fell while the others opened: bring each up again.
  for (size_t i = 0; i < flows.size(); ++i) {
    bed.in(flows[i].run(at[i], 6));
    at[i] += 6u * flows[i].full();
  }
  bed.advance(10us);
  bed.forget();
  for (size_t i = 0; i < flows.size(); ++i) {
    since.push_back(bed.now());
    bed.in(flows[i].run(at[i], 1));
    bed.advance(1us);
  }
  bed.advance(1ms);
  const auto out = bed.inside();
  REQUIRE(out.size() == flows.size());
  for (size_t i = 0; i < out.size(); ++i) {
    CHECK(out[i].dport == flows[i].inside_port);
    CHECK(out[i].time - since[i] <= 50us);
  }
}

TEST_CASE("Delay: time that jumps loses nothing", "[delay]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  uint32_t at = bed.open_bulk(flow);
  const uint32_t from = at;
  const auto jump = GENERATE(std::chrono::nanoseconds(24h * 60), std::chrono::nanoseconds(-500ms));
  bed.in(flow.run(at, 2));
  at += 2u * flow.full();
  bed.set_now(bed.now() + jump);
  bed.in(flow.run(at, 2));
  at += 2u * flow.full();
  bed.housekeeping(1000);
  bed.in(flow.run(at, 2));
  at += 2u * flow.full();
  bed.advance(1s);
  CHECK(same(payload_of(bed.inside()), stream_of(flow.in(from), at - from)));
}
