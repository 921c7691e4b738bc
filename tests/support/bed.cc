// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/bed.h"

#include <exception>
#include <stdexcept>

namespace test {

using pxio::Direction;
using pxio::Nanos;

Bed::Bed(const pxgw::Policy& policy, const pxgw::Capacity& capacity, pxio::BufferPools* own_pools,
         const pxio::Segmenting& cuts)
    : pools_(own_pools != nullptr ? *own_pools : pools()),
      policy_(policy),
      inside_port_(policy.link == pxio::Link::kEthernet, cuts),
      outside_port_(policy.link == pxio::Link::kEthernet, cuts),
      inside_tx_(inside_port_, 0),
      outside_tx_(outside_port_, 0),
      exceptions_(std::uncaught_exceptions()) {
  if (pools_.in_use() != 0) throw std::logic_error("buffers were missing before this test");
  gateway_ = std::make_unique<pxgw::Gateway>(policy_, capacity, pools_.buffers(), inside_tx_,
                                             outside_tx_);
}

Bed::~Bed() noexcept(false) {
  const std::string wrong = check_balance();
  gateway_.reset();
  if (!wrong.empty() && std::uncaught_exceptions() == exceptions_) throw std::logic_error(wrong);
}

void Bed::process(Direction d, const std::vector<Frame>& frames) {
  inside_port_.now = outside_port_.now = now_;
  gateway_->flush_expired(now_);
  for (size_t at = 0; at < frames.size();) {
    rte_mbuf* burst[pxio::kBurst];
    uint16_t n = 0;
    for (; n < pxio::kBurst && at < frames.size(); ++at) {
      pxio::PktPtr p = to_mbuf(frames[at], pools_.buffers());
      if (!p) {
        ++not_received_;
        continue;
      }
      burst[n++] = p.release();
    }
    given_[pxio::index(d)] += n;
    gateway_->process(d, burst, n, now_);
    flush_tx();
  }
  flush_tx();
}

std::vector<Decoded> Bed::merge(const std::vector<Frame>& frames) {
  in(frames);
  advance(std::chrono::milliseconds(1));
  return inside();
}

void Bed::flush_tx() {
  inside_port_.now = outside_port_.now = now_;
  inside_tx_.flush();
  outside_tx_.flush();
}

void Bed::advance(Nanos by) {
  const Nanos until = now_ + by;
  for (auto next = gateway_->next_deadline(); next && *next <= until;
       next = gateway_->next_deadline()) {
    now_ = std::max(now_, *next);
    gateway_->flush_expired(now_);
    flush_tx();
    if (const auto again = gateway_->next_deadline(); again && *again <= now_)
      throw std::logic_error("flush_expired left something whose deadline has passed");
  }
  now_ = until;
  gateway_->flush_expired(now_);
  flush_tx();
}

void Bed::housekeeping(int times) {
  for (int i = 0; i < times; ++i) gateway_->housekeeping(now_);
  flush_tx();
}

void Bed::drain() {
  gateway_->drain(now_);
  flush_tx();
}

void Bed::apply(const pxgw::Policy& policy) {
  // The old one lives on until the gateway has let go of it.
  next_policy_ = policy;
  gateway_->apply(next_policy_, now_);
  policy_ = policy;
  gateway_->apply(policy_, now_);
  flush_tx();
}

void Bed::open(const Flow& flow) {
  const bool inside_opens = flow.opener == Opener::kInside;
  const Direction first = inside_opens ? Direction::kOutbound : Direction::kInbound;
  process(first, {flow.syn()});
  process(pxio::reverse(first), {flow.syn_ack()});
  process(first, {flow.third()});
  forget();
}

uint32_t Bed::open_bulk(const Flow& flow) {
  open(flow);
  uint32_t offset = 0;
  for (int i = 0; i < 4; ++i) {
    in(flow.run(offset, 6));
    offset += 6u * flow.full();
    advance(std::chrono::microseconds(10));
  }
  in({flow.in(offset, flow.full()).flags(ACK | PSH)});
  forget();
  return offset + flow.full();
}

std::string Bed::check_balance() {
  drain();
  gateway_->flush_expired(now_);
  flush_tx();
  const pxgw::Counters& c = count();
  const pxio::Counters& e = c.engine;
  std::string wrong;
  const auto expect = [&](const char* what, uint64_t have, uint64_t want) {
    if (have != want)
      wrong += std::string(what) + ": " + std::to_string(have) + ", not " + std::to_string(want) + "; ";
  };
  if (gateway_->next_deadline()) wrong += "something is held after a drain; ";
  expect("in_pkts", c.in_pkts, given_[0]);
  expect("out_pkts", c.out_pkts, given_[1]);
  const uint64_t lost = inside_tx_.dropped_full() + outside_tx_.dropped_full();
  expect("packets that the ports saw, or that didn't fit", inside_port_.total + outside_port_.total + lost,
         inside_tx_.pushed_pkts() + outside_tx_.pushed_pkts());
  const uint64_t drops = c.drop_split_checksum + c.drop_split_segments + c.drop_no_buffer +
                         c.drop_too_big + c.ptb_taken + c.ptb_ignored + c.probe_answers +
                         c.probe_errors + c.probe_taken + c.drop_hello + c.drop_caravan_foreign;
  const uint64_t more = (e.split_out_segs - e.split_in_pkts) + (c.frag_out_pkts - c.frag_in_pkts) +
                        c.icmp_sent + c.probe_sent + c.probe_reports + c.caravan.unbundle_out;
  const uint64_t fewer = e.merge_out_segs - e.merge_out_merged + c.caravan.bundle_out_datagrams -
                         c.caravan.bundle_out_caravans + c.caravan.unbundle_in + c.reassembled_fragments -
                         c.reassembled_pkts - (c.udp_cut_datagrams - c.udp_cut_pkts);
  expect("packets sent", inside_tx_.pushed_pkts() + outside_tx_.pushed_pkts(),
         given_[0] + given_[1] + more - fewer - drops);
  expect("buffers not back", pools_.in_use(), 0);
  return wrong;
}

Bytes payload_of(const std::vector<Decoded>& packets) {
  Bytes r;
  for (const Decoded& d : packets) r.insert(r.end(), d.payload.begin(), d.payload.end());
  return r;
}

Bytes stream_of(const Tcp& t, size_t len) {
  Bytes r;
  for (size_t i = 0; i < len; ++i) r.push_back(stream_byte(t.seed, t.seq_no + static_cast<uint32_t>(i)));
  return r;
}

std::string text_of(const std::vector<Decoded>& packets) {
  std::string r;
  for (const Decoded& d : packets) r += "\n  " + d.text();
  return r;
}

}  // namespace test
