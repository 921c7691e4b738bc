// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/core/hello.h"

namespace caravan {
namespace {

struct be64 {
  be32 high, low;
  uint64_t host() const { return uint64_t{high.host()} << 32 | low.host(); }
};
be64 to_be64(uint64_t v) {
  return {be32(static_cast<uint32_t>(v >> 32)), be32(static_cast<uint32_t>(v))};
}

struct Wire {
  be16 magic;
  uint8_t version_type;
  uint8_t status;  // 0 in a hello
  be16 size, lifetime_ms;
  be64 nonce, cookie, session;
};
static_assert(sizeof(Wire) == kHelloBytes && alignof(Wire) == 1);

std::optional<Wire> message(Bytes payload, Type type) {
  if (payload.size() != kHelloBytes || type_of(payload) != type) return {};
  const auto w = pxio::load<Wire>(payload.data());
  // A size that is too small for any caravan is a mistake, not a wish.
  if (w.size.host() != 0 && w.size.host() < kLeastSize) return {};
  return w;
}

template <typename Message>
Wire wire_of(const Message& m, Type type, uint8_t status) {
  return {.magic = be16(kWireMagic),
          .version_type = static_cast<uint8_t>(kWireVersion << 4 | static_cast<uint8_t>(type)),
          .status = status,
          .size = be16(m.size),
          .lifetime_ms = be16(m.lifetime_ms),
          .nonce = to_be64(m.nonce),
          .cookie = to_be64(m.cookie),
          .session = to_be64(m.session)};
}

}  // namespace

std::optional<Type> type_of(Bytes p) {
  if (p.size() < 4 || (p[0] << 8 | p[1]) != kWireMagic || p[2] >> 4 != kWireVersion) return {};
  const unsigned type = p[2] & 15u;
  if (type > static_cast<unsigned>(Type::kAnswer)) return {};
  return static_cast<Type>(type);
}

void encode(const Hello& m, std::span<uint8_t, kHelloBytes> out) {
  const Wire w = wire_of(m, Type::kHello, 0);
  std::memcpy(out.data(), &w, sizeof w);
}

void encode(const Answer& m, std::span<uint8_t, kHelloBytes> out) {
  const Wire w = wire_of(m, Type::kAnswer, static_cast<uint8_t>(m.status));
  std::memcpy(out.data(), &w, sizeof w);
}

std::optional<Hello> parse_hello(Bytes payload) {
  const auto w = message(payload, Type::kHello);
  if (!w || w->status != 0) return {};
  return Hello{w->size.host(), w->lifetime_ms.host(), w->nonce.host(), w->cookie.host(),
               w->session.host()};
}

std::optional<Answer> parse_answer(Bytes payload) {
  const auto w = message(payload, Type::kAnswer);
  if (!w || w->status > static_cast<uint8_t>(Status::kGone)) return {};
  return Answer{static_cast<Status>(w->status),
                w->size.host(),
                w->lifetime_ms.host(),
                w->nonce.host(),
                w->cookie.host(),
                w->session.host()};
}

}  // namespace caravan
