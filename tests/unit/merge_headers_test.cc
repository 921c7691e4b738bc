// SPDX-License-Identifier: BSD-3-Clause
// What must be equal for segments to merge, and what may move: a row a field.
#include <algorithm>
#include <functional>

#include "tests/support/checks.h"

using namespace test;

namespace {

struct Row {
  const char* field;
  std::function<void(Tcp&)> change;
  int only = 0;               // the family it exists in, 0: both
  bool other_flow = false;    // the flow isn't known by that value, so nothing behind merges
  std::function<void(Tcp&)> base = nullptr;  // done to all segments first
};

void add_bytes(Tcp& t, Bytes b) { t.opts.insert(t.opts.end(), b.begin(), b.end()); }

const std::vector<Row>& must_be_equal() {
  static const std::vector<Row> rows = {
      {"Ethernet source", [](Tcp& t) { t.lower.src_mac[5] ^= 1; }},
      {"Ethernet destination", [](Tcp& t) { t.lower.dst_mac[5] ^= 4; }},
      {"VLAN id", [](Tcp& t) { t.lower.tags[0].tci ^= 1; }, 0, true},
      {"VLAN priority", [](Tcp& t) { t.lower.tags[0].tci ^= 0x2000; }},
      {"VLAN stack", [](Tcp& t) { t.lower.tags.push_back({0x8100, 9}); }, 0, true},
      {"tag protocol", [](Tcp& t) { t.lower.tags[0].tpid ^= 0x8100 ^ 0x88a8; }, 0, true},
      {"TOS or traffic class", [](Tcp& t) { t.lower.tos ^= 0x20; }},
      {"CE mark", [](Tcp& t) { t.lower.tos = 3; }, 0, false, [](Tcp& t) { t.lower.tos = 2; }},
      {"TTL or hop limit", [](Tcp& t) { t.lower.ttl--; }},
      {"DF", [](Tcp& t) { t.lower.df = !t.lower.df; }, 4},
      {"reserved IP bit", [](Tcp& t) { t.lower.reserved = true; }, 4},
      {"flow label", [](Tcp& t) { t.lower.flow_label ^= 0x10000; }, 6},
      {"flow label, low bit", [](Tcp& t) { t.lower.flow_label ^= 1; }, 6},
      {"CWR", [](Tcp& t) { t.flag_bits ^= CWR; }},
      {"ECE", [](Tcp& t) { t.flag_bits ^= ECE; }},
      {"AE", [](Tcp& t) { t.flag_bits ^= AE; }},
      {"option bytes", [](Tcp& t) { t.opts.back() ^= 1; }, 0, false,
       [](Tcp& t) { add_bytes(t, {1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2}); }},
      {"option kind", [](Tcp& t) { t.opts[t.opts.size() - 4] = 254; }, 0, false,
       [](Tcp& t) { add_bytes(t, {253, 4, 1, 1}); }},
      {"option order", [](Tcp& t) { std::rotate(t.opts.begin(), t.opts.begin() + 12, t.opts.end()); }, 0,
       false, [](Tcp& t) { add_bytes(t, {253, 4, 1, 1}); }},
      {"option layout", [](Tcp& t) { std::rotate(t.opts.begin(), t.opts.begin() + 2, t.opts.end()); }},
      {"header length", [](Tcp& t) { add_bytes(t, {1, 1, 1, 1}); }},
      {"timestamps", [](Tcp& t) { t.opts.assign(12, 1); }},
  };
  return rows;
}

std::vector<Tcp> segments(const Flow& flow, size_t count, const std::function<void(Tcp&)>& base) {
  std::vector<Tcp> r;
  for (size_t i = 0; i < count; ++i) {
    r.push_back(flow.in(static_cast<uint32_t>(i * 1000), 1000));
    if (base) base(r.back());
  }
  return r;
}

// Different flows: their packets may overtake each other.
void check_each_untouched(std::vector<Decoded> out, const std::vector<Tcp>& in) {
  REQUIRE(out.size() == in.size());
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.seq < b.seq; });
  check_untouched(out, {in.begin(), in.end()});
}

}  // namespace

TEST_CASE("Headers: everything that a receiver can see must be equal to merge", "[headers]") {
  const int version = GENERATE(4, 6);
  const size_t row_no = GENERATE(range(size_t{0}, must_be_equal().size()));
  const Row& row = must_be_equal()[row_no];
  if (row.only != 0 && row.only != version) return;
  CAPTURE(version, row.field);
  const Flow flow({version, 1, true});
  Bed bed;
  bed.open(flow);
  SECTION("from the second segment on") {
    std::vector<Tcp> p = segments(flow, 3, row.base);
    row.change(p[1]);
    row.change(p[2]);
    const auto out = bed.merge({p.begin(), p.end()});
    INFO(text_of(out));
    if (row.other_flow) {
      check_each_untouched(out, p);
    } else {
      REQUIRE(out.size() == 2);
      check_untouched({out[0]}, {p[0]});
      check_merged(out[1], {p[1], p[2]});
      CHECK(out[1].options.size() == p[1].header_len() - 20);
    }
  }
  SECTION("in the third segment alone") {
    std::vector<Tcp> p = segments(flow, 4, row.base);
    row.change(p[2]);
    const auto out = bed.merge({p.begin(), p.end()});
    INFO(text_of(out));
    if (row.other_flow) {
      REQUIRE(out.size() == 3);
      check_untouched({out[0], out[2]}, {p[2], p[3]});
      check_merged(out[1], {p[0], p[1]});
    } else {
      REQUIRE(out.size() == 3);
      check_merged(out[0], {p[0], p[1]});
      check_untouched({out[1], out[2]}, {p[2], p[3]});
    }
  }
}

TEST_CASE("Headers: ack, window and timestamps may move on inside a merge", "[headers]") {
  const int version = GENERATE(4, 6);
  Flow flow({version, 0, true});
  flow.inside_isn = 0xffffff00;  // ack wraps
  Bed bed;
  bed.open(flow);
  std::vector<Tcp> p;
  for (uint32_t i = 0; i < 5; ++i) {
    Tcp t = flow.in(i * 1000, 1000).ack(flow.inside_isn + 1 + i * 100);
    t.window(static_cast<uint16_t>(i % 2 != 0 ? 10 : 60000)).id(static_cast<uint16_t>(i * 77));
    t.opts.clear();
    t.ts(0xfffffffe + i, 0x7ffffffe + 2 * i);
    p.push_back(t);
  }
  const auto out = bed.merge({p.begin(), p.end()});
  INFO(text_of(out));
  REQUIRE(out.size() == 1);
  check_merged(out[0], p);
}

TEST_CASE("Headers: a step back of ack or timestamps ends a merge", "[headers]") {
  const int version = GENERATE(4, 6);
  const int what = GENERATE(0, 1, 2);
  const Flow flow({version, 0, true});
  Bed bed;
  bed.open(flow);
  std::vector<Tcp> p = segments(flow, 4, nullptr);
  for (size_t i = 2; i < 4; ++i) {
    if (what == 0) p[i].ack(p[i].ack_no - 1);
    if (what != 0) {
      p[i].opts.clear();
      p[i].ts(what == 1 ? 500 : 501, what == 2 ? 100 : 101);
    }
  }
  const auto out = bed.merge({p.begin(), p.end()});
  INFO(text_of(out));
  REQUIRE(out.size() == 2);
  check_merged(out[0], {p[0], p[1]});
  check_merged(out[1], {p[2], p[3]});
  CHECK(bed.count().engine.merge_end_backward == 1);
}

TEST_CASE("Headers: the ECN counter keeps its values through a merge", "[headers]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  // ACE 5, 5, 6, 6: AE is the highest bit, then CWR, then ECE.
  std::vector<Tcp> p = segments(flow, 4, nullptr);
  p[0].add_flags(AE | ECE);
  p[1].add_flags(AE | ECE);
  p[2].add_flags(AE | CWR);
  p[3].add_flags(AE | CWR);
  const auto out = bed.merge({p.begin(), p.end()});
  REQUIRE(out.size() == 2);
  check_merged(out[0], {p[0], p[1]});
  check_merged(out[1], {p[2], p[3]});
}

TEST_CASE("Headers: classic CWR on the first segment after a reduction stays there", "[headers]") {
  const Flow flow({GENERATE(4, 6), 0, true});
  Bed bed;
  bed.open(flow);
  std::vector<Tcp> p = segments(flow, 4, nullptr);
  p[1].add_flags(CWR);
  const auto out = bed.merge({p.begin(), p.end()});
  REQUIRE(out.size() == 3);
  check_untouched({out[0], out[1]}, {p[0], p[1]});
  check_merged(out[2], {p[2], p[3]});
}
