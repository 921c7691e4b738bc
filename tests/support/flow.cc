// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/flow.h"

#include <utility>

namespace test {

std::vector<Shape> all_shapes() {
  std::vector<Shape> r;
  for (int version : {4, 6})
    for (int tags : {0, 1, 2})
      for (bool ts : {true, false}) r.push_back({version, tags, ts});
  return r;
}

Flow::Flow(Shape s, uint16_t number)
    : shape(s), inside_port(static_cast<uint16_t>(40000 + number)) {
  const auto n = static_cast<uint8_t>(number % 200 + 1);
  inside = v4() ? addr4(10, 0, 0, n) : addr6(0xfd00, 1, n);
  outside = v4() ? addr4(203, 0, 113, n) : addr6(0x2001, 0xdb8, n);
  inside_mss = v4() ? 8960 : 8940;
  outside_mss = v4() ? 1460 : 1440;
}

Tcp Flow::from_inside() const {
  Tcp t = v4() ? tcp4() : tcp6();
  t.lower.src = inside;
  t.lower.dst = outside;
  t.sport = inside_port;
  t.dport = outside_port;
  t.seed = inside_port;
  for (int i = 0; i < shape.tags; ++i)
    t.vlan(static_cast<uint16_t>(100 + i), shape.tags == 2 && i == 0 ? 0x88a8 : 0x8100);
  return t;
}

Tcp Flow::from_outside() const {
  Tcp t = from_inside();
  std::swap(t.lower.src, t.lower.dst);
  std::swap(t.lower.src_mac, t.lower.dst_mac);
  std::swap(t.sport, t.dport);
  t.seed = inside_port + 100000u;
  return t;
}

Tcp Flow::syn() const {
  const bool in = opener == Opener::kInside;
  Tcp t = in ? from_inside() : from_outside();
  t.seq(in ? inside_isn : outside_isn).ack(0).flags(SYN).add_flags(syn_flags);
  t.mss(in ? inside_mss : outside_mss);
  if (shape.timestamps) t.ts(100, 0);
  t.opts.insert(t.opts.end(), syn_options.begin(), syn_options.end());
  return t;
}

Tcp Flow::syn_ack() const {
  const bool in = opener == Opener::kInside;
  Tcp t = in ? from_outside() : from_inside();
  t.seq(in ? outside_isn : inside_isn).ack((in ? inside_isn : outside_isn) + 1);
  t.flags(SYN | ACK).add_flags(syn_ack_flags);
  t.mss(in ? outside_mss : inside_mss);
  if (shape.timestamps) t.ts(500, 100);
  t.opts.insert(t.opts.end(), syn_options.begin(), syn_options.end());
  return t;
}

Tcp Flow::third() const { return opener == Opener::kInside ? out() : in(); }

Tcp Flow::in(uint32_t offset, size_t len) const {
  Tcp t = from_outside();
  t.seq(outside_isn + 1 + offset).ack(inside_isn + 1).data(len);
  if (shape.timestamps) t.ts(501, 101);
  return t;
}

Tcp Flow::out(uint32_t offset, size_t len) const {
  Tcp t = from_inside();
  t.seq(inside_isn + 1 + offset).ack(outside_isn + 1).data(len);
  if (shape.timestamps) t.ts(101, 501);
  return t;
}

std::vector<Frame> Flow::run(uint32_t offset, size_t count) const {
  std::vector<Frame> r;
  for (size_t i = 0; i < count; ++i) {
    r.push_back(in(offset, full()).build());
    offset += full();
  }
  return r;
}

}  // namespace test
