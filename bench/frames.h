// SPDX-License-Identifier: BSD-3-Clause
// Writes the packets of the workloads into buffers: valid headers and checksums, payload of zeros.
#pragma once
#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <vector>

#include "pxio/dp/units.h"

namespace bench {

struct Shape {
  int version = 4;
  bool timestamps = true;
};

// One end-to-end connection between an inside and an outside host.
struct Flow {
  uint32_t in_seq = 1, out_seq = 1;  // next byte of each direction
  uint32_t tsval = 1;
};

class Frames {
 public:
  Frames(uint32_t flows, Shape shape);

  // Handshake of flow f, three frames in turn: 0 SYN (from outside), 1 SYN-ACK, 2 ACK.
  pxio::Direction handshake(uint32_t f, int step, rte_mbuf& m) const noexcept;
  // The flow's next data segment in this direction, with `payload` bytes in this buffer alone.
  void data(uint32_t f, pxio::Direction d, uint16_t payload, bool push, rte_mbuf& m) noexcept;
  // The same in a chain whose buffers are large enough together; `m` has `payload` bytes of room behind
  // the headers in the whole chain.
  void data_chain(uint32_t f, pxio::Direction d, uint32_t payload, rte_mbuf& m) noexcept;
  // A datagram from outside that no stage translates; on IPv6 its checksum is right, and a port has proved it.
  void datagram(uint32_t f, uint16_t payload, rte_mbuf& m) const noexcept;

  // Caravan from the flow's inside host: `n` datagrams of `payload` bytes to its outside host.
  void caravan(uint32_t f, uint32_t n, uint16_t payload, rte_mbuf& m);
  // The inside host of flow f, host byte order; on IPv6 the last four bytes of 2001::/96.
  static uint32_t inside_host(uint32_t f) { return 0x0a000000u + (f >> 4); }

  // A SYN from outside like no other, IPv4.
  void flood(rte_mbuf& m) noexcept;

  uint16_t header_len() const { return header_len_; }
  uint16_t full_payload() const { return static_cast<uint16_t>(1514 - header_len_); }
  uint16_t jumbo_payload() const { return static_cast<uint16_t>(9014 - header_len_); }
  uint32_t flows() const { return static_cast<uint32_t>(flows_.size()); }

 private:
  uint16_t write(uint32_t f, pxio::Direction d, uint32_t seq, uint32_t ack, uint8_t flags,
                 uint32_t payload, uint16_t mss, uint8_t* p) const noexcept;
  uint16_t write_datagram(uint32_t f, pxio::Direction d, uint16_t payload, uint8_t* p) const noexcept;
  void describe(rte_mbuf& m) const noexcept;

  Shape shape_;
  uint16_t header_len_;
  std::vector<Flow> flows_;
  uint32_t flooded_ = 0;
};

}  // namespace bench
