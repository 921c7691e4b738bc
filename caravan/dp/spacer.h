// SPDX-License-Identifier: BSD-3-Clause
// Datagrams of one caravan don't leave back to back where that is configured: each waits for its
// place behind the one before it of the same pair. Worker thread.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "caravan/dp/counters.h"
#include "pxio/dp/pkt.h"
#include "pxio/dp/tx_buffer.h"
#include "pxio/dp/units.h"

namespace caravan {

class Spacer {
 public:
  // Nobody waits for longer.
  static constexpr pxio::Nanos kMostDelay = std::chrono::milliseconds(2);

  // Holds `capacity` packets at most; when full, all leave at once. Throws std::bad_alloc.
  Spacer(uint32_t capacity, pxio::TxBuffer& tx, Counters& counters)
      : tx_(tx), count_(counters), capacity_(capacity) {
    waiting_.reserve(capacity);
  }
  ~Spacer() {
    for (const Waiting& w : waiting_) pxio::PktPtr(w.pkt).reset();
  }
  Spacer(const Spacer&) = delete;
  Spacer& operator=(const Spacer&) = delete;

  // 0: everything leaves at once.
  void set_spacing(pxio::Nanos spacing) noexcept { spacing_ = spacing; }

  // Sends the packet, in the order of its pair: now, or when its place has come. `pair_hash`: of
  // hash_of().
  void push(pxio::PktPtr pkt, uint64_t pair_hash, pxio::Nanos now) noexcept {
    if (spacing_ == pxio::Nanos(0) && waiting_.empty()) return tx_.push(std::move(pkt));
    pxio::Nanos& free_at = lanes_[pair_hash % kLanes];
    // The lane's order is that of these times, and of arrival where they are equal.
    const pxio::Nanos at = std::min(std::max(now, free_at), now + kMostDelay);
    free_at = at + spacing_;
    if (at > now && waiting_.size() == capacity_) flush_all();
    if (at <= now || capacity_ == 0) {
      tx_.push(std::move(pkt));
      return;
    }
    ++count_.spaced;
    waiting_.push_back({at, next_++, pkt.release()});
    std::push_heap(waiting_.begin(), waiting_.end(), later);
  }
  // Whether a plain datagram of that pair has to go through push(), too, to keep its order.
  bool holds(uint64_t pair_hash, pxio::Nanos now) const noexcept {
    return !waiting_.empty() && lanes_[pair_hash % kLanes] > now;
  }
  void flush_expired(pxio::Nanos now) noexcept {
    while (!waiting_.empty() && waiting_.front().at <= now) send_first();
  }
  void flush_all() noexcept {
    while (!waiting_.empty()) send_first();
  }
  std::optional<pxio::Nanos> next_deadline() const noexcept {
    if (waiting_.empty()) return std::nullopt;
    return waiting_.front().at;
  }
  uint32_t held() const noexcept { return static_cast<uint32_t>(waiting_.size()); }

 private:
  struct Waiting {
    pxio::Nanos at;
    uint64_t order;
    rte_mbuf* pkt;
  };
  static bool later(const Waiting& a, const Waiting& b) noexcept {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }
  void send_first() noexcept {
    std::pop_heap(waiting_.begin(), waiting_.end(), later);
    tx_.push(pxio::PktPtr(waiting_.back().pkt));
    waiting_.pop_back();
  }

  static constexpr size_t kLanes = 1024;
  pxio::TxBuffer& tx_;
  Counters& count_;
  pxio::Nanos spacing_{0};
  uint32_t capacity_;
  uint64_t next_ = 0;
  std::vector<Waiting> waiting_;  // a heap in memory reserved once
  std::array<pxio::Nanos, kLanes> lanes_{};
};

}  // namespace caravan
