// SPDX-License-Identifier: BSD-3-Clause
// Bundling of inbound UDP datagrams by chaining their buffers; payload is never copied, and read only
// where an IPv6 datagram's checksum wasn't proved by the port. What is held per pair of addresses is one
// caravan under construction. The order of a pair is kept: what can't join what is held makes that leave
// first. Worker thread.
#pragma once
#include <optional>
#include <span>

#include "caravan/core/hosts.h"
#include "caravan/core/tunnels.h"
#include "caravan/dp/counters.h"
#include "caravan/dp/pair.h"
#include "pxio/dp/tx_buffer.h"
#include "pxio/dp/units.h"
#include "pxio/dp/zeroed.h"

namespace caravan {

class Bundler {
 public:
  struct Limits {
    pxio::Nanos hold = std::chrono::microseconds(50);  // 0: nothing is held beyond its burst
    // For so long after a pair's last caravan its lone datagrams leave in caravans of one: the host may take
    // longer over a caravan than over a plain datagram, which would overtake it.
    pxio::Nanos linger = std::chrono::milliseconds(20);
    uint16_t mtu = 9000;                               // inside: no caravan is larger
    uint16_t max_segs = 64;                            // buffers that the inside port takes in one packet
    uint32_t max_held = 8192;                          // datagrams, over all pairs
    uint8_t max_datagrams = kMaxDatagrams;
    uint16_t port = kDefaultPort;
    bool observe = false;  // nothing is bundled, for no host; what would be is counted
  };
  struct Sink {
    pxio::TxBuffer* tx;
    std::array<uint64_t, 12>* hold_histogram;  // bin k: less than 2^k us
  };

  // Remembers `slots` pairs (a power of two; others are rounded up) and holds a caravan for each.
  // Throws std::bad_alloc.
  Bundler(const HostTable& hosts, uint32_t slots, const Limits& limits, Sink sink, Counters& counters, uint64_t secret);
  ~Bundler();  // frees what is held
  Bundler(const Bundler&) = delete;
  Bundler& operator=(const Bundler&) = delete;

  // An inbound datagram or fragment of UDP, Kind::kUdp or Kind::kFragment. True: it has been taken, and is
  // held, or pushed behind what was held for its pair. False: its host hasn't asked for caravans, or none
  // are made in observe-only mode; it stays the caller's, and nothing is held for its pair.
  bool add(rte_mbuf* pkt, const pxio::PacketView& v, pxio::Nanos now) noexcept;
  // Whether datagrams of this kind are bundled, for hosts that ask: those of which `pkt` was merged (Kind::kUdp).
  bool bundles(const rte_mbuf& pkt, const pxio::PacketView& v) const noexcept;
  // After each receive burst: what isn't part of a stream of datagrams leaves.
  void end_burst(pxio::Nanos now) noexcept;
  void flush_expired(pxio::Nanos now) noexcept;
  void flush_all(pxio::Nanos now) noexcept;
  std::optional<pxio::Nanos> next_deadline() const noexcept;

  // Flushes first where that matters. `ports` are never bundled, at most 64 of them.
  void set_limits(const Limits& limits, pxio::Nanos now) noexcept;
  void set_tunnel_ports(std::span<const uint16_t> ports) noexcept;
  uint32_t held() const noexcept { return held_; }             // caravans
  uint32_t held_datagrams() const noexcept { return held_datagrams_; }

 private:
  // Why a held caravan left; the order is that of kEndCounter.
  enum class End : uint8_t { kFull, kCount, kHeaders, kOther, kChecksum, kBurst, kHold, kDrain };
  // What a datagram is compared with, then what changes with each: two lines, fetched as one.
  struct alignas(128) Slot {
    Pair pair;
    uint64_t macs_a;
    uint64_t tags;        // what follows the MACs, without the last type
    uint64_t same;        // TOS or class, DF, TTL, link header's length: see Facts
    uint32_t macs_b;
    // Second line.
    rte_mbuf* head;       // null in observe-only mode
    rte_mbuf* last;
    uint32_t sum;         // IPv6: of all records, for the outer checksum; folded
    uint32_t mark;        // of the first datagram
    uint32_t last_in_us;
    uint32_t last_caravan_us;     // 0: none yet
    uint16_t size;        // of the caravan as an IP packet
    uint16_t cap;
    uint16_t first_len;   // UDP header and payload of the first
    uint16_t buffers;
    uint8_t count;        // datagrams; 0: nothing is held
    uint8_t score;        // datagrams that came close together
    uint8_t l2_len;
    bool v6 : 1;
    bool unproved : 1;    // IPv6: the first one's checksum hasn't been proved
  };
  static_assert(sizeof(Slot) == 128);
  struct Link {  // order of age; slot 0 anchors the list
    uint32_t prev, next;
    pxio::Nanos since;
  };
  template <bool kV6>
  struct Facts;
  static constexpr uint32_t kWays = 4;
  // Of the pairs in slots 4 i + 1 ... 4 i + 4; 0: free.
  struct alignas(16) Tags {
    std::array<uint32_t, kWays> of;
  };

  bool is_tunnel(uint16_t port) const noexcept { return tunnels_[port / 64] >> port % 64 & 1; }
  bool pass(uint64_t& counter, uint32_t slot, End why, rte_mbuf* pkt, pxio::Nanos now) noexcept;
  template <bool kV6>
  bool add_as(rte_mbuf* pkt, const pxio::PacketView& v, pxio::Nanos now) noexcept;
  template <bool kV6>
  bool carries_on(const rte_mbuf& m, const pxio::PacketView& v, const Facts<kV6>& f) const noexcept;
  template <bool kV6>
  uint64_t Counters::*unfit(const rte_mbuf& m, const pxio::PacketView& v) const noexcept;
  bool prove(const rte_mbuf& m, unsigned l2_len) noexcept;
  uint32_t find(const Pair& pair, bool v6, uint64_t hash) const noexcept;
  uint32_t make(const Pair& pair, bool v6, uint64_t hash) noexcept;
  // Worked out once a burst.
  uint32_t now_us(pxio::Nanos now) noexcept {
    if (now != now_) {
      now_ = now;
      now_us_ = static_cast<uint32_t>(now.count() / 1000);
    }
    return now_us_;
  }
  void note_arrival(Slot& s, uint32_t now_us) const noexcept;
  void note_fresh(uint32_t slot, pxio::Nanos now) noexcept;
  template <bool kV6>
  void start(uint32_t slot, rte_mbuf* pkt, const Facts<kV6>& f, pxio::Nanos now) noexcept;
  template <bool kV6>
  void join(Slot& s, rte_mbuf* pkt, const Facts<kV6>& f) noexcept;
  template <bool kV6>
  void flush_full(uint32_t slot, const Facts<kV6>& f, pxio::Nanos now) noexcept;
  void flush(uint32_t slot, End why, pxio::Nanos now) noexcept;
  bool lone_in_caravan(Slot& s, uint32_t now_us) noexcept;
  static void finish(Slot& s, uint16_t port) noexcept;

  const HostTable& hosts_;
  Limits limits_;
  Sink sink_;
  Counters& count_;
  uint64_t secret_;
  uint32_t mask_;  // of sets
  uint32_t hold_us_ = 0, linger_us_ = 0;
  uint32_t held_ = 0, held_datagrams_ = 0;
  uint32_t last_ = 0;        // slot of the datagram before
  uint32_t last_ports_ = 0;  // of one that was fit, as they lie in its header
  pxio::Nanos now_{-1};
  uint32_t now_us_ = 0;
  pxio::ZeroedArray<Tags> tags_;
  pxio::ZeroedArray<Slot> slots_;  // from 1
  pxio::ZeroedArray<Link> links_;
  std::array<uint64_t, 1024> tunnels_{};
  std::array<uint32_t, pxio::kBurst> fresh_;  // slots that grew in this burst
  uint16_t fresh_n_ = 0;
};

}  // namespace caravan
