// SPDX-License-Identifier: BSD-3-Clause
// Connections being opened: what both SYNs said, kept apart from the flows that are translated, in few
// slots that live for seconds, so that a flood of SYNs costs nothing but its own packets. A flow is
// made only when the end that sent the first SYN has acknowledged the other's. Worker thread.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "pxio/dp/flow_table.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/units.h"

namespace pxgw {

struct Handshake {
  pxio::FlowKey key;
  pxio::Ticks since = 0;
  // Per end, by the direction of what it sends.
  struct End {
    uint32_t isn = 0;
    uint16_t mss = 0;          // as advertised; RFC 9293's default where the option was absent
    uint16_t ace = 0;          // AE, CWR and ECE of its SYN
    bool seen = false;
    bool initiator = false;    // sent a SYN without ACK
  };
  std::array<End, 2> end;
  bool in_use = false;
  bool refused = false;   // complete, but there was no room for its flow
  bool answered() const { return end[0].seen && end[1].seen; }
  pxio::EcnMode ecn() const noexcept;
  // Whether this non-SYN segment can only come from somebody who saw both SYNs.
  bool completed_by(pxio::Direction d, const pxio::PacketView& v) const noexcept;
};

class HandshakeTable {
 public:
  explicit HandshakeTable(uint32_t capacity);
  Handshake* find(const pxio::FlowKey& key, uint64_t hash) noexcept;
  // A slot for the key, an existing one wiped; null where all its slots are taken by younger ones.
  Handshake* start(const pxio::FlowKey& key, uint64_t hash, pxio::Ticks now) noexcept;
  void erase(Handshake& h) noexcept {
    h.in_use = false;
    --size_;
  }
  // Visits the next slots in turn and frees those that are too old.
  void age(pxio::Ticks now, uint32_t count) noexcept;
  uint32_t size() const noexcept { return size_; }

 private:
  static constexpr uint32_t kWays = 8;
  static bool expired(const Handshake& h, pxio::Ticks now) noexcept;
  Handshake* set_of(uint64_t hash) { return &slots_[(hash & mask_) * kWays]; }
  uint64_t mask_;
  uint32_t size_ = 0;
  uint32_t hand_ = 0;
  std::unique_ptr<Handshake[]> slots_;
};

}  // namespace pxgw
