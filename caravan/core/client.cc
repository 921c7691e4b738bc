// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/core/client.h"

#include <algorithm>

namespace caravan {

uint64_t Client::nonce(uint64_t n) const {
  return siphash(config_.secret, {reinterpret_cast<const uint8_t*>(&n), sizeof n});
}

Hello Client::next(Time now) {
  const bool heard = session_ != 0 && now - answered_ < config_.patience;
  // A gateway that is up answers the first few; later ones look whether it has come back.
  due_ = now + (heard || count_ < 4 ? config_.renew : config_.retry);
  return {.size = config_.size,
          .lifetime_ms = static_cast<uint16_t>(config_.lifetime.count()),
          .nonce = nonce(count_++),
          .cookie = cookie_,
          .session = session_};
}

std::optional<Hello> Client::farewell() const {
  if (size_ == 0) return {};
  return Hello{
      .size = 0, .lifetime_ms = 0, .nonce = nonce(count_), .cookie = cookie_, .session = session_};
}

bool Client::accept(Bytes payload, Time now) {
  const auto a = parse_answer(payload);
  if (!a || a->session == 0) return false;
  bool ours = false;
  for (uint64_t n = 1; n <= std::min(count_, kOpen); ++n) ours |= a->nonce == nonce(count_ - n);
  if (!ours) return false;
  ++answers_;
  status_ = a->status;
  session_ = a->session;
  cookie_ = a->cookie;
  answered_ = now;
  if (a->status == Status::kRegistered && a->size != 0) {
    size_ = std::min(a->size, config_.size);
    asked_again_ = false;
    return true;
  }
  size_ = 0;
  // Once at once, so that somebody who answers nothing but cookies doesn't make a storm.
  if (a->status == Status::kCookie && !asked_again_) {
    asked_again_ = true;
    due_ = now;
  }
  return true;
}

}  // namespace caravan
