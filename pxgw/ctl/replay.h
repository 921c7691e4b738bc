// SPDX-License-Identifier: BSD-3-Clause
// Carries a capture through a Gateway, with the capture's clock as time. Control thread.
//
// Time. Packets whose stamps lie close together are one receive burst, as a live port would have
// delivered them: up to 32 packets, within 5 us and within the hold limit of the first one's stamp,
// none behind the deadline of a held packet, frames above the outside MTU in bursts of their own.
// The burst is processed at the stamp of its first packet, so that nothing is held for longer than
// the limit. What passes leaves at its own stamp, a merged packet at that of its last segment or,
// where it left later, of the burst or the deadline that made it leave. Output is in the order of
// these times.
//
// Stamps that step back by less than a second (several queues or interfaces in one capture) don't
// turn the gateway's clock back, but packets that pass keep them. A larger step is a clock that was
// set: what is held leaves, and time goes on from there.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "pxgw/ctl/capture.h"
#include "pxgw/dp/gateway.h"
#include "pxio/dp/buffers.h"
#include "pxio/dp/pkt.h"
#include "pxio/dp/port.h"

namespace pxgw {

// The gateway's ports towards a capture: what is sent waits here for its stamp.
class Outbox : public pxio::Port {
 public:
  uint16_t rx_burst(uint16_t, rte_mbuf**, uint16_t) noexcept override { return 0; }
  uint16_t tx_burst(uint16_t, rte_mbuf** pkts, uint16_t n) noexcept override;

  struct Waiting {
    pxio::PktPtr pkt;
    pxio::Nanos order{};  // the gateway's time at which it leaves
    pxio::Nanos stamp{};  // what the file shall say
  };
  std::vector<Waiting> waiting;
};

struct ReplayTotals {
  uint64_t in_pkts = 0, in_bytes = 0;  // as they were on the wire
  uint64_t out_pkts = 0, out_bytes = 0;
  uint64_t cut_pkts = 0;        // cut by the capture's snaplen
  uint64_t stepped_back = 0;    // stamps below the one before
  pxio::Nanos first{}, last{};  // stamps
  Counters counters;
};

class Replay {
 public:
  // Registers the mbuf field that carries stamps; EAL is running.
  Replay(CaptureReader& in, CaptureWriter& out, const Policy& policy, const Capacity& capacity,
         pxio::Buffers buffers);
  // Calls `tick` now and then; it may throw. The writer isn't committed.
  ReplayTotals run(const std::function<void()>& tick);

 private:
  bool read();  // the next packet to next_; false at the end
  pxio::PktPtr take(const CaptureRecord& r);
  pxio::PktPtr try_take(const CaptureRecord& r);
  void burst();
  bool goes_around() const;
  void pass_by();
  void expire(pxio::Nanos until);
  void empty();   // everything that is held leaves now
  void settle();  // writes what has been sent
  void stamp(Outbox& box) const;
  void write(Outbox::Waiting& w);

  CaptureReader& in_;
  CaptureWriter& out_;
  const Policy& policy_;
  pxio::Buffers buffers_;
  uint32_t usual_frame_;  // frames above this are bursts of their own
  Outbox inside_box_, outside_box_;
  pxio::TxBuffer to_inside_, to_outside_;
  Gateway gateway_;
  pxio::PktPtr next_;
  // Times are the gateway's: stamps plus shift_, which makes up for steps of the capture's clock.
  pxio::Nanos next_time_{}, now_{};
  pxio::Nanos shift_{}, next_shift_{};
  pxio::Nanos last_stamp_{};
  pxio::Nanos left_{};   // when the last packet left
  pxio::Nanos floor_{};  // what leaves now leaves no earlier
  // When the packets of the present burst came; each has its index here as its port.
  std::array<pxio::Nanos, pxio::kBurst> arrived_{};
  uint16_t arrived_n_ = 0;
  pxio::Nanos housekept_{};
  uint32_t burst_ = 0;  // number of the present burst
  ReplayTotals totals_;
  Counters passed_by_;  // of packets that went around the gateway
};

}  // namespace pxgw
