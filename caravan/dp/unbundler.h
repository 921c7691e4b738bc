// SPDX-License-Identifier: BSD-3-Clause
// Takes caravans apart that inside hosts send. The datagrams share the caravan's buffers where the
// port takes chains; short ones are copied. Worker thread.
#pragma once
#include "caravan/core/caravan.h"
#include "caravan/dp/counters.h"
#include "caravan/dp/message.h"
#include "pxio/dp/buffers.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"

namespace caravan {

class Unbundler {
 public:
  struct Limits {
    uint16_t port = kDefaultPort;
    uint16_t max_segs =
        64;  // buffers that the outside port takes in one packet; below 2: all is copied
  };
  // `counters` outlives the unbundler.
  Unbundler(const Limits& limits, pxio::Buffers buffers, Counters& counters) noexcept
      : limits_(limits), buffers_(buffers), count_(counters) {}
  void set_limits(const Limits& limits) noexcept { limits_ = limits; }

  // Whether a datagram (Kind::kUdp) is a caravan or claims to be one: to the caravan port, with the
  // magic and type.
  bool is_caravan(const rte_mbuf& m, const pxio::PacketView& v) const noexcept {
    return to_port(m, v, limits_.port) && has_type(m, v, Type::kCaravan);
  }
  // Whether a fragment (Kind::kFragment) is the first of one.
  bool begins_caravan(const rte_mbuf& m, const pxio::PacketView& v) const noexcept {
    return may_begin(m, v, limits_.port, Type::kCaravan);
  }

  // Takes such a caravan, which came from an inside port and address: that is the caller's to know.
  // Its datagrams, whole packets with the caravan's link header, are in out[0..n), in their order, and the
  // caller's. 0: it was dropped under a counter. They may be larger than the outside takes.
  using Out = std::array<rte_mbuf*, kMaxDatagrams>;
  uint16_t take(pxio::PktPtr pkt, const pxio::PacketView& v, Out& out) noexcept;

 private:
  struct Front;
  bool take_one_buffer(pxio::PktPtr& pkt, const Records& records, const Front& front, uint32_t base, Out& out) noexcept;
  bool take_chain(rte_mbuf& m, const Records& records, const Front& front, uint32_t base, Out& out) noexcept;
  pxio::PktPtr make(rte_mbuf& m, const Record& r, const Front& front, uint32_t base) noexcept;
  void drop(Refusal why) noexcept;

  Limits limits_;
  pxio::Buffers buffers_;
  Counters& count_;
};

}  // namespace caravan
