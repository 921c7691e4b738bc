// SPDX-License-Identifier: BSD-3-Clause
// One TCP connection between an inside and an outside host, as a maker of segments.
#pragma once
#include "tests/support/builder.h"

namespace test {

enum class Opener { kInside, kOutside };

struct Shape {
  int version = 4;
  int tags = 0;
  bool timestamps = true;
};
// Both families; no, one and two tags; with and without timestamps.
std::vector<Shape> all_shapes();

struct Flow {
  explicit Flow(Shape s = {}, uint16_t number = 1);

  Shape shape;
  Addr inside, outside;
  uint16_t inside_port, outside_port = 443;
  uint32_t inside_isn = 1000, outside_isn = 5000;
  uint16_t inside_mss, outside_mss;  // as each host sends it: 8960/1460 or 8940/1440
  Opener opener = Opener::kInside;
  uint16_t syn_flags = 0, syn_ack_flags = 0;  // ECN bits of the handshake
  Bytes syn_options;                          // further ones, of both SYNs

  // The handshake's three, each as its host sends it; opener first.
  Tcp syn() const;
  Tcp syn_ack() const;
  Tcp third() const;
  // Segments whose sequence number lies `offset` behind the first data byte of that direction.
  Tcp in(uint32_t offset = 0, size_t len = 0) const;
  Tcp out(uint32_t offset = 0, size_t len = 0) const;
  // Full payload of a segment outside, and of one inside.
  uint16_t full() const { return static_cast<uint16_t>((v4() ? 1460 : 1440) - ts_len()); }
  uint16_t jumbo() const { return static_cast<uint16_t>((v4() ? 8960 : 8940) - ts_len()); }
  uint16_t ts_len() const { return shape.timestamps ? 12 : 0; }
  uint16_t ip_len() const { return v4() ? 20 : 40; }
  bool v4() const { return shape.version == 4; }
  // `count` full inbound segments from `offset` on.
  std::vector<Frame> run(uint32_t offset, size_t count) const;

 private:
  Tcp from_inside() const;
  Tcp from_outside() const;
};

}  // namespace test
