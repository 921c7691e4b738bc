// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/core/registrar.h"

#include <algorithm>

namespace caravan {
namespace {

// A cookie is good for one to two of these.
constexpr auto kEpoch = 30s;
// Below this the least delay would make a host unknown again.
constexpr uint16_t kLeastLifeMs = 100;

int64_t epoch_of(Time now) { return now / kEpoch; }

}  // namespace

Registrar::Registrar(HostTable& hosts, const RegistrarConfig& config)
    : hosts_(hosts), config_(config) {}

uint64_t Registrar::cookie(const Address& of, int64_t epoch) const noexcept {
  struct {
    std::array<uint8_t, 16> address;
    int64_t epoch;
    uint64_t session;
    uint64_t family;
  } what{of.bytes, epoch, config_.session, static_cast<uint64_t>(of.family)};
  const uint64_t c =
      siphash(config_.secret, {reinterpret_cast<const uint8_t*>(&what), sizeof what});
  return c != 0 ? c : 1;  // 0 says that there is none
}

bool Registrar::cookie_ok(const Address& of, uint64_t given, Time now) const noexcept {
  const int64_t epoch = epoch_of(now);
  return given == cookie(of, epoch) || given == cookie(of, epoch - 1);
}

bool Registrar::allowed(Time now) noexcept {
  if (second_ < Time(0) || now - second_ >= 1s || now < second_) {
    second_ = now;
    in_second_ = 0;
  }
  return in_second_++ < config_.per_second;
}

bool Registrar::answer(const Address& from, Bytes payload, Time now,
                       std::span<uint8_t, kHelloBytes> out) noexcept {
  const auto hello = parse_hello(payload);
  if (!hello) {
    ++count_.drop_malformed;
    return false;
  }
  if (!allowed(now)) {
    ++count_.drop_limit;
    return false;
  }
  ++count_.hellos;
  Answer a{.status = Status::kCookie,
           .size = std::min(hello->size, config_.largest),
           .lifetime_ms = static_cast<uint16_t>(std::clamp<int64_t>(
               hello->lifetime_ms, kLeastLifeMs,
               std::clamp<int64_t>(config_.longest_life.count(), kLeastLifeMs, UINT16_MAX))),
           .nonce = hello->nonce,
           .cookie = cookie(from, epoch_of(now)),
           .session = config_.session};
  if (!cookie_ok(from, hello->cookie, now)) {
    ++count_.cookies;
  } else if (hello->size == 0) {
    hosts_.erase(from);
    a.status = Status::kGone;
    ++count_.unregistered;
  } else {
    const bool known = hosts_.size_of(from, now) != 0;
    if (hosts_.set({from, a.size, now + std::chrono::milliseconds(a.lifetime_ms)}, now)) {
      a.status = Status::kRegistered;
      ++(known ? count_.renewed : count_.registered);
    } else {
      a.status = Status::kFull;
      ++count_.refused_full;
    }
  }
  encode(a, out);
  return true;
}

}  // namespace caravan
