// SPDX-License-Identifier: BSD-3-Clause
// Makes fragmented UDP datagrams whole, for hosts inside that take them so. Fragments wait in their
// buffers, and are chained when all are there; whatever doesn't become a datagram (one is missing,
// too large, overlapping, unlike the others) leaves as it came, in the order in which it came, so
// nothing is lost by trying. That is why librte_ip_frag isn't used: it frees what it can't
// complete, and has no place for more than eight fragments. A fixed table. Worker thread.
#pragma once
#include <array>
#include <optional>

#include "caravan/dp/pair.h"
#include "pxgw/dp/counters.h"
#include "pxio/dp/pkt.h"
#include "pxio/dp/units.h"
#include "pxio/dp/zeroed.h"

namespace pxgw {

class Reassembler {
 public:
  // Of a datagram: 9000 B in fragments of 576 B are 17, of 1280 B 8.
  static constexpr uint16_t kMostFragments = 17;
  // Buffers of fragments that wait, for each place in the table: the datagrams that come mostly have few.
  static constexpr uint32_t kHeldPerPlace = 4;
  struct Limits {
    pxio::Nanos timeout;
    uint16_t max_segs;  // buffers that the inside port takes in one packet
  };
  // What goes on, the caller's: a whole datagram, or fragments as they came.
  using Out = std::array<rte_mbuf*, kMostFragments + 1>;

  // `capacity` datagrams at once (rounded up to a power of two). `secret` keeps strangers from
  // choosing which displace each other. Throws std::bad_alloc.
  Reassembler(uint32_t capacity, uint64_t secret, Counters& counters);
  ~Reassembler();
  Reassembler(const Reassembler&) = delete;
  Reassembler& operator=(const Reassembler&) = delete;
  void set_limits(const Limits& limits) noexcept { limits_ = limits; }

  // Takes a fragment (Kind::kFragment). `largest`: IP packet that its host takes. Returns how many
  // packets are in `out`.
  uint16_t add(rte_mbuf* pkt, const pxio::PacketView& v, uint32_t largest, pxio::Nanos now,
               Out& out) noexcept;
  // One datagram's fragments whose time is over, or (drain) the oldest's. 0: there are none.
  uint16_t take_expired(pxio::Nanos now, Out& out) noexcept;
  uint16_t take_oldest(Out& out) noexcept;
  std::optional<pxio::Nanos> next_deadline() const noexcept {
    if (places_[0].next == 0) return std::nullopt;
    return places_[places_[0].next].since + limits_.timeout;
  }
  uint32_t held() const noexcept { return held_; }

 private:
  struct Piece {
    rte_mbuf* pkt;
    uint16_t offset, length;  // bytes behind the IP header and, on IPv6, the fragment header
  };
  struct Place {
    caravan::Pair pair;
    pxio::Nanos since;
    uint32_t id;
    uint32_t prev, next;  // in the order of age; place 0 anchors the list
    uint32_t bytes;
    uint32_t total;  // 0: the last fragment isn't there yet
    uint16_t segs;
    uint16_t headers;  // before a fragment's payload
    uint8_t count;
    uint8_t l2_len;
    uint8_t ecn;  // codepoints seen, a bit each
    bool v6;
    enum class State : uint8_t { kFree, kWaiting, kGivenUp } state;
    std::array<Piece, kMostFragments> pieces;  // as they came
  };
  struct Fragment;
  static bool read(const rte_mbuf& m, const pxio::PacketView& v, Fragment& f) noexcept;
  static bool fits_with(const Place& p, const rte_mbuf& m, const Fragment& f) noexcept;
  uint16_t empty(Place& p, Out& out) noexcept;
  uint16_t release(uint32_t place, Out& out) noexcept;
  uint16_t give_up(Place& p, rte_mbuf* pkt, Out& out) noexcept;
  static rte_mbuf* join(Place& p) noexcept;

  static constexpr uint32_t kWays = 4;
  Counters& count_;
  uint64_t secret_;
  uint32_t mask_;  // of sets
  Limits limits_{std::chrono::milliseconds(50), 64};
  uint32_t held_ = 0, held_segs_ = 0;  // fragments, and their buffers
  pxio::ZeroedArray<Place> places_;  // from 1
};

}  // namespace pxgw
