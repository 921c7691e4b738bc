// SPDX-License-Identifier: BSD-3-Clause
// A frame as a test has it: plain bytes, and what the port would say about them.
#pragma once
#include <rte_mbuf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pxio/dp/buffers.h"
#include "pxio/dp/pkt.h"

namespace test {

using Bytes = std::vector<uint8_t>;

struct Frame {
  Bytes bytes;
  std::vector<uint32_t> cuts = {};  // offsets at which a new buffer of the chain begins
  uint64_t ol_flags = 0;            // RTE_MBUF_F_RX_*
  uint16_t segsz = 0;               // tso_segsz, with RTE_MBUF_F_RX_LRO
};

// The frame in buffers from the pools; null where they are empty.
pxio::PktPtr to_mbuf(const Frame& frame, pxio::Buffers buffers);
// The packet's bytes, over all its buffers; also checks that the chain's own counts agree.
Bytes to_bytes(const rte_mbuf& m);

Bytes from_hex(const std::string& hex);
std::string to_hex(const Bytes& bytes, size_t most = 96);

}  // namespace test
