// SPDX-License-Identifier: BSD-3-Clause
// Where links of different MTU share the load by source port, no port's packets may be too large.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/fpmtud/unit/path.h"

using namespace test;

namespace {

// The least MTU among the paths that these ports take.
uint16_t truth(Ecmp& net, uint16_t first, uint16_t ports = kDefaultPorts) {
  uint16_t least = UINT16_MAX;
  for (uint16_t i = 0; i < ports; ++i)
    least = std::min(least, net.of(static_cast<uint16_t>(first + i)).truth());
  return least;
}

const SessionConfig kTo9000{.top = 9000};

}  // namespace

TEST_CASE("ports: the least of all paths, in one round trip, and that they differ is told") {
  for (uint16_t narrow = 1280; narrow < 8990; narrow += 97) {
    for (const bool exact : {false, true}) {
      Ecmp net{{Path{}, Path{.mtus = {9000, narrow, 9000}}, Path{.mtus = {9000, 8990}}}};
      const PortPaths r = measure(net, {.top = 9000, .exact = exact}, 40000);
      const uint16_t least = truth(net, 40000);
      INFO("narrow " << narrow << ", least " << least);
      CHECK(r.result().finding.mtu <= least);
      CHECK(r.result().finding.mtu + 8 > least);
      if (exact) CHECK(r.result().finding.mtu == least);
      CHECK(r.result().round_trips <= (exact ? 2 : 1));
      CHECK(r.each().size() == kDefaultPorts);
      bool other = false;
      for (uint16_t p = 40000; p < 40000 + kDefaultPorts; ++p)
        other |= net.of(p).truth() >= least + 8;
      CHECK((!other || r.differ()));
    }
  }
}

TEST_CASE("ports: of two paths with equal share the narrow one is missed once in 2^ports") {
  Ecmp net{{Path{}, Path{.mtus = {9000, 1500, 9000}}}};
  int missed = 0, alone = 0, tried = 0;
  for (uint16_t port = 32768; port < 33768; port += kDefaultPorts, ++tried) {
    missed += measure(net, kTo9000, port).result().finding.mtu != 1500;
    alone += measure(net, kTo9000, port, 1).result().finding.mtu != 1500;
  }
  CHECK(alone > tried / 3);
  CHECK(missed <= tried / 8);
}

TEST_CASE("ports: one path alone doesn't differ from itself, whatever is lost") {
  for (const double loss : {0.0, 0.05, 0.2}) {
    for (const uint16_t mtu : {1400, 1500, 4469, 8961, 9000}) {
      Ecmp net{{Path{.mtus = {9000, mtu, 9000}, .loss = loss}}};
      net.paths[0].random.seed(mtu);
      for (uint16_t port = 40000; port < 40020; ++port) {
        const PortPaths r = measure(net, kTo9000, port);
        INFO("MTU " << mtu << ", loss " << loss);
        CHECK_FALSE(r.differ());
        CHECK(r.result().finding.mtu <= mtu);
      }
    }
  }
}

TEST_CASE("ports: silence on some is no small MTU, on all it is silence") {
  Ecmp net{{Path{}, Path{.loss = 1}}};
  int mixed = 0;
  for (uint16_t port = 40000; port < 40080; port += kDefaultPorts) {
    const PortPaths r = measure(net, kTo9000, port);
    const auto silent = std::count_if(
        r.each().begin(), r.each().end(),
        [](const PortPaths::Path& p) { return p.result.verdict == Verdict::kSilent; });
    if (silent == kDefaultPorts) {
      CHECK(r.result().verdict == Verdict::kSilent);
      CHECK(r.result().finding.mtu == 0);
      continue;
    }
    mixed += silent != 0;
    CHECK(r.result().verdict == Verdict::kMeasured);
    CHECK(r.result().finding.mtu == 9000);
    CHECK(r.result().proven == 9000);
    CHECK_FALSE(r.differ());
  }
  CHECK(mixed > 5);
}

TEST_CASE("ports: what is proven is proven for all that answer") {
  PortPaths r;
  r.add(1, {.verdict = Verdict::kMeasured, .finding = {How::kBoth, 1396, 1404}, .proven = 1390});
  r.add(2, {.verdict = Verdict::kMeasured, .finding = {How::kLadder, 1400, 1410}, .proven = 1380});
  r.add(3, {.verdict = Verdict::kRefused});
  CHECK(r.result().finding.mtu == 1396);
  CHECK(r.result().proven == 1380);
  CHECK_FALSE(r.differ());
  r.add(4, {.verdict = Verdict::kMeasured, .finding = {How::kLadder, 9000, 0}, .proven = 9000});
  CHECK(r.result().finding.mtu == 1396);
  CHECK(r.differ());
}
