// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/worker.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace pxgw {

using pxio::Direction;
using pxio::Nanos;

void PublishedCounters::store(const Counters& c) noexcept {
  const auto words = std::bit_cast<std::array<uint64_t, kWords>>(c);
  const uint64_t v = version_.load(std::memory_order_relaxed);
  version_.store(v + 1, std::memory_order_relaxed);
  // Release on each word instead of a fence, which thread sanitizers don't follow: whoever reads a
  // new word then also sees the odd version.
  for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
  version_.store(v + 2, std::memory_order_release);
}

Counters PublishedCounters::load() const noexcept {
  std::array<uint64_t, kWords> words;
  for (;;) {
    const uint64_t before = version_.load(std::memory_order_acquire);
    for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
    if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
  }
  return std::bit_cast<Counters>(words);
}

Worker::Lane::Lane(const PairPorts& p, uint16_t queue, const Policy& policy,
                   const Capacity& capacity, pxio::Buffers buffers)
    : ports(p),
      to_inside(*p.inside, queue),
      to_outside(*p.outside, queue),
      gateway(policy, capacity, buffers, to_inside, to_outside) {}

Worker::Worker(uint16_t queue, const std::vector<PairPorts>& pairs, const PolicySet& policies,
               const Capacity& capacity, pxio::Buffers buffers)
    : queue_(queue), policies_(&policies), wanted_(&policies), generation_(policies.generation) {
  for (size_t i = 0; i < pairs.size(); ++i)
    lanes_.emplace_back(pairs[i], queue, policies.pairs[i], capacity, buffers).gateway.connect(
        mailbox_, static_cast<uint8_t>(i));
}

void Worker::add_stage(const PairStage& make) {
  for (size_t i = 0; i < lanes_.size(); ++i)
    lanes_[i].gateway.add_stage(make(mailbox_, static_cast<uint8_t>(i)));
}

bool Worker::poll_once(Nanos now) noexcept {
  // The time since the last poll was work if that one had packets.
  if (had_packets_) busy_ns_ += static_cast<uint64_t>((now - last_poll_).count());
  last_poll_ = now;
  bool any = false;
  if (!mailbox_.empty()) [[unlikely]] {
    take_commands(now, kCommandsPerPoll);
    any = !mailbox_.empty();
  }
  for (Lane& lane : lanes_) {
    any |= receive(lane, *lane.ports.outside, Direction::kInbound, now);
    any |= receive(lane, *lane.ports.inside, Direction::kOutbound, now);
    lane.gateway.flush_expired(now);
    lane.to_inside.flush();
    lane.to_outside.flush();
  }
  ++polls_;
  polls_with_packets_ += any;
  had_packets_ = any;
  if (now >= next_housekeeping_) housekeeping(now);
  return any;
}

// The packets among them are flushed by the caller.
void Worker::take_commands(Nanos now, uint32_t most) noexcept {
  Command c;
  for (uint32_t i = 0; i < most && mailbox_.take(c); ++i) {
    lanes_[c.pair].gateway.command(c, now);
  }
}

bool Worker::receive(Lane& lane, pxio::Port& port, Direction direction, Nanos now) noexcept {
  Ahead& ahead = lane.ahead[pxio::index(direction)];
  rte_mbuf* pkts[pxio::kBurst];
  uint16_t n = ahead.n;
  if (n != 0) {
    std::copy_n(ahead.pkts.begin(), n, pkts);
  } else {
    n = port.rx_burst(queue_, pkts, pxio::kBurst);
    if (n == 0) return false;
  }
  ahead.n = n == pxio::kBurst ? port.rx_burst(queue_, ahead.pkts.data(), pxio::kBurst) : uint16_t{0};
  lane.gateway.process(direction, pkts, n, now, {ahead.pkts.data(), ahead.n});
  return true;
}

std::optional<Nanos> Worker::next_deadline() const noexcept {
  std::optional<Nanos> first;
  for (const Lane& lane : lanes_) {
    const auto d = lane.gateway.next_deadline();
    if (d && (!first || *d < *first)) first = d;
  }
  return first;
}

std::vector<int> Worker::wait_fds() const {
  std::vector<int> fds;
  for (const Lane& lane : lanes_)
    for (const pxio::Port* p : {lane.ports.outside, lane.ports.inside}) fds.push_back(p->wait_fd(queue_));
  return fds;
}

void Worker::before_sleep() noexcept {
  for (Lane& lane : lanes_)
    for (pxio::Port* p : {lane.ports.outside, lane.ports.inside}) p->arm(queue_);
  // What the last polls counted shows while the worker sleeps, too.
  publish();
}

void Worker::after_sleep(Nanos now) noexcept {
  for (Lane& lane : lanes_)
    for (pxio::Port* p : {lane.ports.outside, lane.ports.inside}) p->disarm(queue_);
  if (now >= next_housekeeping_ || wanted_.load(std::memory_order_relaxed) != policies_) housekeeping(now);
}

void Worker::housekeeping(Nanos now) noexcept {
  next_housekeeping_ = now + kHousekeeping;
  const PolicySet* wanted = wanted_.load(std::memory_order_acquire);
  if (wanted != policies_) {
    for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i].gateway.apply(wanted->pairs[i], now);
    policies_ = wanted;
    generation_.store(wanted->generation, std::memory_order_release);
  }
  const bool quiet = std::exchange(busy_polls_, polls_with_packets_) == polls_with_packets_;
  for (Lane& lane : lanes_) {
    if (quiet) {
      lane.ports.outside->idle(queue_);
      lane.ports.inside->idle(queue_);
    }
    lane.gateway.housekeeping(now);
    lane.to_inside.flush();
    lane.to_outside.flush();
  }
  publish();
}

void Worker::drain(Nanos now) noexcept {
  take_commands(now, UINT32_MAX);
  for (Lane& lane : lanes_) {
    for (const Direction d : {Direction::kInbound, Direction::kOutbound}) {
      Ahead& ahead = lane.ahead[pxio::index(d)];
      if (ahead.n != 0) lane.gateway.process(d, ahead.pkts.data(), std::exchange(ahead.n, uint16_t{0}), now);
    }
    lane.gateway.drain(now);
    lane.to_inside.flush();
    lane.to_outside.flush();
  }
  publish();
}

void Worker::publish() noexcept {
  Counters sum;
  for (Lane& lane : lanes_) add(sum, lane.gateway.counters());
  published_.store(sum);
  published_polls_.store(polls_, std::memory_order_relaxed);
  published_with_packets_.store(polls_with_packets_, std::memory_order_relaxed);
  published_busy_ns_.store(busy_ns_, std::memory_order_relaxed);
}

Worker::Load Worker::load() const noexcept {
  return {published_polls_.load(std::memory_order_relaxed),
          published_with_packets_.load(std::memory_order_relaxed),
          published_busy_ns_.load(std::memory_order_relaxed)};
}

void add(Counters& to, const Counters& more) noexcept {
  using Words = std::array<uint64_t, sizeof(Counters) / sizeof(uint64_t)>;
  auto a = std::bit_cast<Words>(to);
  const auto b = std::bit_cast<Words>(more);
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  to = std::bit_cast<Counters>(a);
}

}  // namespace pxgw
