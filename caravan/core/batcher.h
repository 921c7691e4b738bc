// SPDX-License-Identifier: BSD-3-Clause
// Bundles what has come together: IP packets in, in their order; IP packets out, those of one pair
// of addresses in the order in which they came. For endpoints that read batches; nothing is held
// from one batch to the next. One thread.
#pragma once
#include <functional>
#include <vector>

#include "caravan/core/caravan.h"

namespace caravan {

class Batcher {
 public:
  // The largest caravan for a datagram's pair, 0: none. Asked once a pair and batch.
  using Cap = std::function<uint16_t(const UdpPacket&)>;
  // A datagram that has nothing to share with: as it came, or in a caravan of its own, so that
  // those that go through an endpoint's process don't fall behind those that don't.
  enum class Lone : uint8_t { kPlain, kCaravan };
  Batcher(uint16_t port, Cap cap, Lone lone = Lone::kPlain)
      : port_(port), lone_(lone), cap_(std::move(cap)) {}

  struct Packet {
    Bytes bytes;
    unsigned datagrams;  // 0: as it came
  };
  // Bytes of `packet` stay where they are until clear().
  void add(Bytes packet);
  // What leaves, valid until clear().
  const std::vector<Packet>& finish();
  void clear();

 private:
  struct Pair {
    std::vector<UdpPacket> held;
    Address src, dst;
    uint16_t cap = 0;
    size_t size = 0;  // of the caravan, as an IP packet
  };
  Pair& pair_of(const Address& src, const Address& dst);
  void flush(Pair& p);
  void flush_all();

  uint16_t port_;
  Lone lone_;
  Cap cap_;
  std::vector<Pair> pairs_;
  size_t pairs_used_ = 0;
  std::vector<std::vector<uint8_t>> made_;  // memory of caravans, kept from batch to batch
  size_t made_used_ = 0;
  std::vector<Packet> out_;
};

}  // namespace caravan
