// SPDX-License-Identifier: BSD-3-Clause
// The path of a packet: parse, tell the direction, handshake | merge | split | pass. One Gateway per
// worker, with all the state of that worker's flows; nothing is shared. Worker thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "pxgw/dp/counters.h"
#include "pxgw/dp/policy.h"
#include "pxgw/dp/stage.h"
#include "pxio/dp/buffers.h"
#include "pxio/dp/tx_buffer.h"
#include "pxio/dp/units.h"

namespace pxgw {

// Sizes of a gateway's tables: fixed when it is made.
struct Capacity {
  uint32_t flows = 1u << 20;
  uint32_t handshakes = 1u << 14;
  uint32_t held = 4096;      // packets held at once at most
  uint32_t pmtu = 4096;      // destinations of which something is known
};

class Gateway {
 public:
  // The policy, pools and buffers outlive the gateway. Throws std::bad_alloc where memory is short.
  Gateway(const Policy& policy, const Capacity& capacity, pxio::Buffers buffers,
          pxio::TxBuffer& to_inside, pxio::TxBuffer& to_outside);
  ~Gateway();  // frees what is still held; drain() first to send it
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // A stage for packets that aren't TCP, asked after those that are there already. Before the first packet.
  void add_stage(const StageMaker& make);

  // Takes n <= kBurst packets that came in on the port of `direction` (kByPort) or from anywhere
  // (kByPrefix: `direction` is not looked at). Ends with the burst: what isn't in bulk transfer leaves.
  // Packets are pushed to the TxBuffers, which the caller flushes. What the caller has already received
  // for the next call may be named: its memory is fetched while this burst is worked on.
  void process(pxio::Direction direction, rte_mbuf** pkts, uint16_t n, pxio::Nanos now,
               std::span<rte_mbuf* const> next = {}) noexcept;

  // Sends what has been held for the hold limit. Call at every poll, also when nothing came in.
  void flush_expired(pxio::Nanos now) noexcept;
  // When flush_expired has something to do next; nothing is held: no value.
  std::optional<pxio::Nanos> next_deadline() const noexcept;

  // Ages tables a bit at a time. Call about once a millisecond.
  void housekeeping(pxio::Nanos now) noexcept;

  // Sends all that is held. After it every buffer is in a TxBuffer or back in its pool.
  void drain(pxio::Nanos now) noexcept;

  // Goes over to another policy, which outlives the gateway; sends what is held first.
  void apply(const Policy& policy, pxio::Nanos now) noexcept;

  // What it has to say goes to `box`, which outlives it, as of pair number `pair`.
  void connect(Mailbox& box, uint8_t pair);
  // Does what control asks for. Packets are pushed, as by process().
  void command(const Command& c, pxio::Nanos now) noexcept;

  const Counters& counters() noexcept;  // brings the state fields up to date

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pxgw
