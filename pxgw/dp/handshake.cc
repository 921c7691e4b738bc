// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/handshake.h"

#include <bit>

namespace pxgw {
namespace {

using pxio::kAe, pxio::kCwr, pxio::kEce;

// A SYN is repeated after 1, 3 and 7 s (RFC 6298), each time anew here; what isn't answered within that
// spacing is a flood or a closed port. An answered one waits for its third segment, which may be lost.
constexpr pxio::Ticks kUnanswered = pxio::to_ticks(std::chrono::seconds(5));
constexpr pxio::Ticks kAnswered = pxio::to_ticks(std::chrono::seconds(20));

// What the first segments may have moved on from the initial sequence numbers (data with the SYN, a
// lost third segment followed by data).
constexpr uint32_t kEarlyWindow = 1u << 24;
// What an end may have sent with its answer, before the third segment (RFC 7413). Few, so that a blind
// guess of its initial sequence number is right once in 65,536.
constexpr uint32_t kEarlyAnswer = 1u << 16;

}  // namespace

pxio::EcnMode Handshake::ecn() const noexcept {
  const End& first = end[end[0].initiator ? 0 : 1];
  const End& second = end[end[0].initiator ? 1 : 0];
  const uint16_t answer = second.ace;
  if (first.ace == (kAe | kCwr | kEce)) {
    // RFC 9768, table 2: which answers mean AccECN, which classic ECN and which none.
    if (answer == kCwr || answer == (kCwr | kEce) || answer == kAe || answer == (kAe | kCwr))
      return pxio::EcnMode::kAccurate;
    if (answer == kEce || answer == (kAe | kEce)) return pxio::EcnMode::kClassic;
    return pxio::EcnMode::kNone;
  }
  if (first.ace == (kCwr | kEce) && answer == kEce) return pxio::EcnMode::kClassic;
  return pxio::EcnMode::kNone;
}

bool Handshake::completed_by(pxio::Direction d, const pxio::PacketView& v) const noexcept {
  const End& from = end[pxio::index(d)];
  const End& to = end[pxio::index(pxio::reverse(d))];
  return from.seen && to.seen && from.initiator && (v.flags & pxio::kAck) != 0 &&
         (v.flags & pxio::kRst) == 0 && v.seq - from.isn - 1 < kEarlyWindow &&
         v.ack - to.isn - 1 < kEarlyAnswer;
}

HandshakeTable::HandshakeTable(uint32_t capacity) {
  const uint64_t sets = std::bit_ceil((uint64_t{capacity} + kWays - 1) / kWays);
  mask_ = sets - 1;
  slots_ = std::make_unique<Handshake[]>(sets * kWays);
}

Handshake* HandshakeTable::find(const pxio::FlowKey& key, uint64_t hash) noexcept {
  if (size_ == 0) return nullptr;
  Handshake* set = set_of(hash);
  for (uint32_t k = 0; k < kWays; ++k)
    if (set[k].in_use && set[k].key == key) return &set[k];
  return nullptr;
}

Handshake* HandshakeTable::start(const pxio::FlowKey& key, uint64_t hash, pxio::Ticks now) noexcept {
  Handshake* slot = find(key, hash);
  Handshake* set = set_of(hash);
  for (uint32_t k = 0; slot == nullptr && k < kWays; ++k)
    if (!set[k].in_use || expired(set[k], now)) slot = &set[k];
  if (slot == nullptr) return nullptr;
  size_ += !slot->in_use;
  *slot = Handshake{};
  slot->key = key;
  slot->since = now;
  slot->in_use = true;
  return slot;
}

bool HandshakeTable::expired(const Handshake& h, pxio::Ticks now) noexcept {
  return now - h.since > (h.answered() ? kAnswered : kUnanswered);
}

void HandshakeTable::age(pxio::Ticks now, uint32_t count) noexcept {
  const auto slots = static_cast<uint32_t>((mask_ + 1) * kWays);
  for (; count != 0 && size_ != 0; --count) {
    hand_ = hand_ + 1 < slots ? hand_ + 1 : 0;
    if (slots_[hand_].in_use && expired(slots_[hand_], now)) erase(slots_[hand_]);
  }
}

}  // namespace pxgw
