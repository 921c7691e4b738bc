// SPDX-License-Identifier: BSD-3-Clause
// What a module beside the translation of TCP looks like to the gateway: path MTU probes, caravans. A stage
// is asked once a burst, never once a packet. Worker thread.
#pragma once
#include <rte_mbuf.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "pxgw/dp/counters.h"
#include "pxgw/dp/mailbox.h"
#include "pxgw/dp/policy.h"
#include "pxio/dp/buffers.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/tx_buffer.h"
#include "pxio/dp/units.h"

namespace pxgw {

class Translator;

class Stage {
 public:
  struct Packet {
    rte_mbuf* pkt;  // null once a stage has taken it
    const pxio::PacketView* view;
    pxio::Direction dir;
  };

  // What a stage is made with; all of it outlives the stage. The policy holds until apply().
  struct Context {
    const Policy& policy;
    pxio::Buffers buffers;
    pxio::TxBuffer& to_inside;
    pxio::TxBuffer& to_outside;
    Counters& count;
    Translator& translator;
  };

  virtual ~Stage() = default;
  // The UDP datagrams of a burst, the fragments that aren't TCP's, and inbound ICMP errors about no flow,
  // in their order. A stage takes what is its own by setting `pkt` to null: it has then pushed it, holds it
  // or has dropped it under a counter. What no stage takes leaves as it came, after the burst's other
  // packets.
  virtual void process(std::span<Packet> pkts, pxio::Nanos now) noexcept = 0;
  // As those of Gateway.
  virtual void flush_expired(pxio::Nanos) noexcept {}
  virtual std::optional<pxio::Nanos> next_deadline() const noexcept { return {}; }
  virtual void housekeeping(pxio::Nanos) noexcept {}
  virtual void count() noexcept {}  // brings its counters up to date
  virtual void drain(pxio::Nanos) noexcept {}
  virtual void apply(const Policy&, pxio::Nanos) noexcept {}
  virtual void command(const Command&, pxio::Nanos) noexcept {}
};

using StageMaker = std::function<std::unique_ptr<Stage>(const Stage::Context&)>;

}  // namespace pxgw
