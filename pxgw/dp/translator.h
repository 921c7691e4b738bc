// SPDX-License-Identifier: BSD-3-Clause
// What a Gateway consists of. A packet's way through it: process() parses the burst, finds the flows,
// and hands each packet in its turn to inbound() or outbound(), which end in one of: merger, push,
// split_and_push, too_big, drop; or to the stages, if it isn't TCP. Worker thread.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pxgw/dp/counters.h"
#include "pxgw/dp/gateway.h"
#include "pxgw/dp/handshake.h"
#include "pxgw/dp/icmp.h"
#include "pxgw/dp/mailbox.h"
#include "pxgw/dp/pmtu_cache.h"
#include "pxgw/dp/policy.h"
#include "pxgw/dp/stage.h"
#include "pxio/dp/merge.h"
#include "pxio/dp/plain_lanes.h"
#include "pxio/dp/split.h"
#include "pxio/dp/zeroed.h"

namespace pxgw {

class Translator {
 public:
  Translator(const Policy& policy, const Capacity& capacity, pxio::Buffers buffers,
             pxio::TxBuffer& to_inside, pxio::TxBuffer& to_outside);
  void add_stage(const StageMaker& make) {
    stages_.push_back(make({*policy_, buffers_, inside_, outside_, count_, *this}));
  }
  // For stages that send what must keep its order to other packets. The packet, if its way takes it whole;
  // else nothing: it has left in fragments, or its sender was told.
  // `l2_len`: bytes before IP.
  pxio::PktPtr fit(pxio::PktPtr pkt, uint32_t l2_len, pxio::Direction d) noexcept;
  // What no stage wants leaves as it came.
  void pass_on(pxio::PktPtr pkt, const pxio::PacketView& v, pxio::Direction d) noexcept;
  void flush_expired(pxio::Nanos now) noexcept;
  std::optional<pxio::Nanos> next_deadline() const noexcept;
  void drain(pxio::Nanos now) noexcept;

  void process(pxio::Direction d, rte_mbuf** pkts, uint16_t n, pxio::Nanos now,
               std::span<rte_mbuf* const> next) noexcept;
  void housekeeping(pxio::Nanos now) noexcept;
  void apply(const Policy& policy, pxio::Nanos now) noexcept;
  const Counters& counters() noexcept;
  void connect(Mailbox& box, uint8_t pair) noexcept {
    mailbox_ = &box;
    pair_ = pair;
  }
  void command(const Command& c, pxio::Nanos now) noexcept;

 private:
  using Direction = pxio::Direction;
  using Flow = pxio::Flow;
  using PacketView = pxio::PacketView;
  using PktPtr = pxio::PktPtr;
  using Count = uint64_t Counters::*;

  // One packet of the burst.
  struct Item {
    PacketView v;
    pxio::FlowKey key;
    uint64_t hash = 0;
    Flow* flow = nullptr;
    Direction dir = Direction::kInbound;
    bool doubtful = false;  // it may have been too large: it comes again
    bool crosses = true;  // between inside and outside
  };

  // translator.cc: the path
  void examine(Item& it, rte_mbuf& m, Direction port_dir) noexcept;
  void classify(Item& it, const rte_mbuf& m, Direction port_dir) noexcept;
  void look_up(Item& it) noexcept;
  struct Taken {  // of a burst, by the short ways
    uint32_t lanes = 0;                     // a bit for each by express() from a lane; they count at the end
    uint32_t pkts = 0, segs = 0, bulk = 0;  // of others; segs, bulk: what add_plain() took
    uint64_t bytes = 0;
    uint32_t ip_len = 0, same_len = 0;  // of the last ones, and how many there were of this length
  };
  void note_sizes(Taken& taken, Direction d) noexcept {
    count_.size_in[index(d)][pxio::size_bin(taken.ip_len)] += taken.same_len;
    taken.same_len = 0;
  }
  void note_packet(Taken& taken, Direction d, uint32_t ip_len, uint32_t frame) noexcept {
    ++taken.pkts;
    taken.bytes += frame;
    if (ip_len != taken.ip_len) [[unlikely]] {
      note_sizes(taken, d);
      taken.ip_len = ip_len;
    }
    ++taken.same_len;
  }
  void note_lanes(const pxio::InLanes& lanes, Taken& taken) noexcept;
  template <typename Fields>
  bool carries_on(const Flow* f, const Fields& s) const noexcept;
  template <typename Fields>
  void took(Flow& f, const Fields& s) noexcept;
  template <bool kV6, bool kStamps, typename Fields>
  bool express(Flow* f, rte_mbuf& m, const uint8_t* p, uint8_t l2_len, const Fields& s) noexcept;
  uint32_t express_run(rte_mbuf* const* pkts, uint32_t first, uint32_t n, Taken& taken) noexcept;
  bool express_merged(uint16_t i, rte_mbuf& m, Taken& taken) noexcept;
  bool express_other(uint16_t i, rte_mbuf& m, Taken& taken) noexcept;
  bool datagram(uint16_t i, const rte_mbuf& m, Direction d) noexcept;
  template <Direction kWay>
  bool recognise_one(uint16_t i, rte_mbuf& m, bool by_port) noexcept;
  bool recognise_alone(uint16_t i, rte_mbuf& m, bool by_port) noexcept;
  void rest_lanes(bool tried, uint32_t in_lane, uint32_t plain) noexcept;
  Flow* find_one(uint16_t i, bool plain) noexcept;
  Flow* find_alone(uint16_t i, bool plain) noexcept;
  // kRuns: what follows (InLanes) is taken together with what it follows. Returns which packets are plain segments.
  template <Direction kWay, bool kRuns>
  uint32_t burst(rte_mbuf** pkts, uint16_t n, bool by_port, std::span<rte_mbuf* const> next,
                 pxio::InLanes lanes) noexcept;
  bool express_out(Flow* flow, rte_mbuf& m, const pxio::PlainSegment& s, Taken& taken) noexcept;
  void dispatch(Item& it, PktPtr pkt) noexcept;
  void note_end(Item& it) noexcept;
  void inbound(Item& it, PktPtr pkt) noexcept;
  void outbound(Item& it, PktPtr pkt) noexcept;
  void pass(PktPtr pkt, const Item& it, Count why) noexcept;
  void pass_opaque(PktPtr pkt, Item& it) noexcept;
  void offer(PktPtr pkt, Item& it) noexcept;
  void run_stages() noexcept;
  pxio::TxBuffer& way(Direction d) noexcept { return d == Direction::kInbound ? inside_ : outside_; }
  void push(PktPtr pkt, Direction d) noexcept { way(d).push(std::move(pkt)); }
  void drop(PktPtr pkt, Count why) noexcept;
  void leave_to_port(PktPtr pkt, const PacketView& v, Direction d, uint32_t piece, uint32_t n) noexcept;
  bool split_and_push(PktPtr& pkt, const Item& it, uint32_t piece, pxio::CwrRule cwr) noexcept;
  void recut(Item& it, PktPtr pkt, uint32_t limit) noexcept;
  bool merge_on(Item& it, PktPtr& pkt) noexcept;
  void note_segment(rte_mbuf& m, const Item& it) const noexcept;
  void too_big(PktPtr pkt, const Item& it, uint16_t mtu) noexcept;
  void icmp(Item& it, PktPtr pkt) noexcept;
  bool take_icmp_token() noexcept;

  // connections.cc: what is known of flows
  void syn(Item& it, rte_mbuf& m) noexcept;
  void rewrite_mss(const Item& it, rte_mbuf& m, uint16_t room) noexcept;
  void learn(Item& it) noexcept;
  void open_flow(Item& it, const Handshake* h) noexcept;
  void set_merge_cap(Flow& f, uint32_t cap) const noexcept;
  void note_outbound(Item& it, const rte_mbuf& m) noexcept;
  void note_ack(Flow& f, uint32_t ack) const noexcept {
    if (!f.out_known || !pxio::seq_before(f.out_una, ack) || pxio::seq_before(f.out_next, ack)) return;
    f.out_una = ack;
    f.rtx_count = 0;
  }

  // paths.cc: how large packets may be further outside
  // What the path of a flow carries, as far as is known or assumed.
  uint16_t path_limit(const Flow& f) const noexcept {
    return f.path_mtu != 0 ? std::min(f.path_mtu, policy_->outside_mtu) : policy_->assumed_path();
  }
  uint16_t whole_limit(const Item& it, const rte_mbuf& m) const noexcept;
  uint16_t offered_mtu(const pxio::FlowKey& k) const noexcept;
  void look_for_black_hole(Item& it, uint32_t ip_len) noexcept;
  void lower_path(const pxio::FlowKey& key, Flow& f, uint16_t mtu) noexcept;
  void mark(Flow& f, const PacketView& v) noexcept;
  void look_for_elephant(Flow& f, const pxio::FlowKey& key, pxio::Ticks now) noexcept;
  void report_path(const Item& it, const rte_mbuf& m) noexcept;
  bool watched(const PathKey& to, pxio::Ticks now) noexcept;
  void take_too_big_from_outside(const TooBig& e, Flow& f) noexcept;
  void take_too_big_from_inside(const TooBig& e, Flow& f) noexcept;

  bool translates(const pxio::FlowKey& key) const noexcept;
  static PathKey inside_of(const pxio::FlowKey& k) noexcept;
  static PathKey outside_of(const pxio::FlowKey& k) noexcept;
  uint32_t base_headers(const PacketView& v) const noexcept { return v.version == 4 ? 40 : 60; }

  const Policy* policy_;
  pxio::Buffers buffers_;
  pxio::TxBuffer& inside_;
  pxio::TxBuffer& outside_;
  Counters count_;
  pxio::FlowTable flows_;
  HandshakeTable handshakes_;
  PmtuCache pmtu_;
  // Where a flow's bytes are counted from, by its place in the table.
  struct Mark {
    uint32_t out, in;
  };
  pxio::ZeroedArray<Mark> marks_;
  struct Watched {
    PathKey to;
    pxio::Ticks since = 0;
  };
  std::array<Watched, 8> watched_;
  uint32_t next_watched_ = 0;
  Mailbox* mailbox_ = nullptr;
  uint8_t pair_ = 0;
  pxio::Merger merger_;
  pxio::Nanos now_{0};
  uint32_t now_us_ = 0;         // to_micros(now_)
  pxio::Ticks now_ticks_ = 0;  // to_ticks(now_)
  pxio::Nanos icmp_refill_{0};
  uint32_t icmp_tokens_ = 0;
  std::array<Item, pxio::kBurst> items_;
  pxio::RecogniseLanes recognise_lanes_ = pxio::recognise_lanes();
  pxio::PlainLanes lanes_;
  uint8_t lanes_rest_ = 0;  // inbound bursts for which they aren't tried
  std::array<pxio::PlainSegment, pxio::kBurst> plain_;  // those without a lane
  std::array<uint64_t, pxio::kBurst> hashes_;           // of plain segments
  std::array<Flow*, pxio::kBurst> plain_flows_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::array<Stage::Packet, pxio::kBurst> offered_;  // of this burst
  std::array<Item*, pxio::kBurst> offered_items_;
  uint16_t offered_n_ = 0;
};

}  // namespace pxgw
