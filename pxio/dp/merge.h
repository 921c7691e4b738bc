// SPDX-License-Identifier: BSD-3-Clause
// Merging of TCP segments into larger packets by chaining their buffers; payload is never read or
// copied. What is held per flow is one packet under construction. The order of a flow is kept: whatever
// can't join what is held makes that leave first. Worker thread.
//
// Follows promises 1 to 6 of docs/architecture.md: the merged packet has the sequence number and TSval
// of its first segment (RFC 7323, section 4.3: the receiver echoes the oldest) and the ack, window and
// TSecr of its last; PSH and FIN end it; everything else that a receiver can see is equal in all.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "pxio/dp/counters.h"
#include "pxio/dp/flow_table.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"
#include "pxio/dp/plain.h"
#include "pxio/dp/plain_lanes.h"
#include "pxio/dp/tx_buffer.h"
#include "pxio/dp/units.h"
#include "pxio/dp/zeroed.h"

namespace pxio {

// Why a held packet left.
enum class End : uint8_t {
  kNone, kFull, kPush, kGap, kFlags, kOptions, kHeaders, kBackward, kChecksum, kSegs, kBurstEnd, kHold,
  kOther, kDrain,
};

// Below this no segment counts as full: MSS 536 less the longest options leaves 496.
inline constexpr uint16_t kLeastFull = 496;
// A segment of this payload and more counts as bulk for the yield.
inline constexpr uint16_t kBulkPayload = 1000;

// Payload of the segments that a packet was made of on its way to us.
inline uint16_t segment_payload(const rte_mbuf& m, const PacketView& v) {
  const bool merged = (m.ol_flags & RTE_MBUF_F_RX_LRO) != 0 && m.tso_segsz != 0;
  return merged && m.tso_segsz < v.payload_len ? m.tso_segsz : v.payload_len;
}
inline uint8_t bulk_segments(const rte_mbuf& m, const PacketView& v) {
  const uint16_t seg = segment_payload(m, v);
  return seg < kBulkPayload ? uint8_t{0} : static_cast<uint8_t>((v.payload_len + seg - 1u) / seg);
}

class Merger {
 public:
  struct Limits {
    Nanos hold = std::chrono::microseconds(50);
    uint16_t max_segs = 64;  // buffers in one packet
    // The first `early_packets` packets of a flow are made of `early_segs` segments at most, so that a
    // sender in slow start sees more ACKs. 0: no such limit.
    uint8_t early_segs = 0;
    uint8_t early_packets = 0;
  };
  struct Sink {
    TxBuffer* tx;
    std::array<uint64_t, 12>* hold_histogram;  // bin k: less than 2^k us
  };

  // Holds at most `slots` packets at a time. Throws std::bad_alloc.
  Merger(FlowTable& flows, uint32_t slots, Limits limits, Sink sink, Counters& counters);
  ~Merger();  // frees what is held
  Merger(const Merger&) = delete;
  Merger& operator=(const Merger&) = delete;

  // The next data segment of `flow`: kTcp, payload, ACK set, none of SYN, RST, URG or reserved bits,
  // options that parse, sequence number not behind flow.next_seq; flow.merge_cap holds it.
  void add(Flow& flow, PktPtr pkt, const PacketView& v, Nanos now) noexcept;
  // The same for the usual case, without a parsed view: a plain segment that carries on, of the flow's full
  // size, which is above the least that counts as full, within flow.merge_cap. False: it needs add();
  // nothing has changed. Defined in merge_plain.h.
  // `p` is the frame, `s` its PlainFields or LaneFields, `now_us` is to_micros(now). The caller has asked
  // has_room() for the burst, and counts what went in, see note_plain().
  template <bool kV6, bool kStamps, typename Fields>
  bool add_plain(Flow& flow, rte_mbuf& m, const uint8_t* p, uint8_t l2_len, const Fields& s, Nanos now,
                 uint32_t now_us) noexcept;
  // Of `n` segments from lane `first` on, InLanes::follows, behind one that add_plain() has taken: takes as many as
  // fit what is now held for the flow, and returns how many; at least one where anything is held and it may grow.
  uint32_t add_run(Flow& flow, rte_mbuf* const* pkts, const PlainLanes& lanes, uint32_t first, uint32_t n,
                   Nanos now) noexcept;
  // Whether a burst may be held.
  bool has_room() const noexcept { return held_buffers_ + kBurst <= max_buffers_; }
  // The same for what the port has merged, where nothing is held and it leaves at once, being full or ended
  // by PSH: `segment` is the payload of the segments that it consists of, the flow's full size. The caller
  // has seen that it carries on and sends it. False: it needs add(); nothing has changed.
  template <typename Fields>
  bool add_whole(Flow& flow, const Fields& s, uint32_t segment, uint32_t now_us) noexcept;
  // Payload of `m` that would fill up the packet held for the flow, in whole segments of `segment` bytes; 0 where
  // it doesn't match. It may be more than `m` has.
  uint32_t lacking(const Flow& flow, const rte_mbuf& m, const PacketView& v, uint16_t segment) const noexcept;
  // Of a burst: segments that add_plain() took, and those of them that are bulk.
  void note_plain(uint32_t segs, uint32_t bulk) noexcept {
    count_.merge_in_segs += segs;
    count_.merge_held_segs += segs;
    count_.merge_bulk_in += bulk;
  }
  // Bring near, in this order, what add_plain() will touch. Each follows pointers that the one before it has
  // brought near, so they are called for all of a burst in turn.
  void prefetch(const Flow& flow) const noexcept { rte_prefetch0(&holds_[flow.hold]); }
  // `n` segments come. True: the packet held will be full, and prefetch_head() is worth its while.
  bool prefetch_last(const Flow& flow, uint32_t n) const noexcept;
  void prefetch_head(const Flow& flow) const noexcept;
  // Slots for `n` new packets.
  void prefetch_free(uint32_t n) const noexcept;
  // What is held for the flow leaves, for the given reason.
  void flush(Flow& flow, End why, Nanos now) noexcept {
    if (flow.hold != 0) flush_slot(flow.hold, why, now);
  }
  // After each receive burst: what isn't in bulk transfer leaves.
  void end_burst(Nanos now) noexcept;
  void flush_expired(Nanos now) noexcept;
  void flush_all(End why, Nanos now) noexcept;
  std::optional<Nanos> next_deadline() const noexcept;

  void set_limits(Limits limits) noexcept;
  uint32_t held() const noexcept { return held_; }
  uint32_t held_buffers() const noexcept { return held_buffers_; }

 private:
  // One packet under construction. What a further segment is compared with stands here, so that the
  // head's own lines are touched again only when it leaves.
  struct alignas(64) Hold {
    rte_mbuf* head;              // null: the slot is free
    rte_mbuf* last;              // null while unsettled
    uint64_t same;               // what must be equal, see same_of()
    uint64_t macs_a;             // the addresses' first eight bytes
    uint32_t macs_b;             // and last four
    uint32_t ack, tsval, tsecr;  // of the last segment
    uint32_t header_sums;        // of all segments, see header_sum(): their payload's, complemented
    uint16_t window;
    uint16_t ip_len;
    uint8_t segs, bulk_segs;
    uint8_t buffers;
    uint8_t l2_len, l4_len, ts_off;
    uint8_t priorities;          // of both VLAN tags
    bool v6 : 1;
    bool keep : 1;               // stays beyond its burst
    bool unsettled : 1;          // the head may have padding, and which buffer is its last isn't known
  };
  static_assert(sizeof(Hold) == 64);
  struct Link {                  // order of age; slot 0 anchors the list
    uint32_t prev, next;
    uint32_t flow;
    Nanos since;
  };

  bool start(Flow& flow, PktPtr& pkt, const PacketView& v, Nanos now) noexcept;
  End mismatch(const Hold& h, const Flow& flow, const rte_mbuf& m, const PacketView& v) const noexcept;
  void join(Hold& h, PktPtr pkt, const PacketView& v) noexcept;
  uint32_t take_slot(Flow& flow, Nanos now) noexcept;
  void after(Flow& flow, Hold& h, uint8_t end_flags, Nanos now) noexcept;
  void note_full(Flow& flow, uint32_t now_us) const noexcept;
  void flush_slot(uint32_t slot, End why, Nanos now, uint8_t end_flags = 0) noexcept;
  static void finish_headers(Hold& h, uint8_t end_flags) noexcept;

  FlowTable& flows_;
  Limits limits_;
  uint32_t hold_us_;      // limits_.hold in units of 1024 ns; 0: nothing stays beyond its burst
  uint8_t max_chain_;     // buffers in one packet at most
  uint8_t keep_from_;     // Flow::bulk from which on a packet stays beyond its burst
  Sink sink_;
  Counters& count_;
  ZeroedArray<Hold> holds_;
  ZeroedArray<Link> links_;
  ZeroedArray<uint32_t> free_;  // a stack of `free_n_` slots
  uint32_t free_n_ = 0;
  uint32_t held_ = 0, held_buffers_ = 0;
  uint32_t max_buffers_;
  std::array<uint32_t, kBurst> fresh_;  // slots that grew in this burst and won't stay
  uint16_t fresh_n_ = 0;
};

}  // namespace pxio
