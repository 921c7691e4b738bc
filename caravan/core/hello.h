// SPDX-License-Identifier: BSD-3-Clause
// Messages by which a host says that it takes caravans, and the gateway's answers: UDP payloads of
// 32 bytes, to and from the caravan port. Any thread.
#pragma once
#include <chrono>
#include <optional>

#include "caravan/core/format.h"

namespace caravan {

// Since an arbitrary start, the same for all calls on one object.
using Time = std::chrono::nanoseconds;
using namespace std::chrono_literals;

inline constexpr size_t kHelloBytes = 32;

// Host to gateway. The first has no cookie; the answer brings one, which proves that the host gets
// what is sent to its address.
struct Hello {
  uint16_t size =
      0;  // the largest caravan that it takes, as an IP packet; 0: it takes none any more
  uint16_t lifetime_ms = 0;  // for how long it wants to be known
  uint64_t nonce = 0;        // random, returned
  uint64_t cookie = 0;       // 0: none yet
  uint64_t session = 0;      // of the gateway's last answer; 0: none yet
};

enum class Status : uint8_t {
  kRegistered = 0,
  kCookie = 1,  // ask again, with the cookie of this answer
  kFull = 2,    // no room for another host
  kGone = 3,    // unregistered, as asked for
};

// Gateway to host, from the address to which the hello was sent.
struct Answer {
  Status status = Status::kRegistered;
  uint16_t size = 0;         // the largest caravan, both ways
  uint16_t lifetime_ms = 0;  // granted
  uint64_t nonce = 0;        // the hello's
  uint64_t cookie = 0;       // for the next hello
  uint64_t session = 0;      // changes when the gateway has restarted
};

void encode(const Hello& m, std::span<uint8_t, kHelloBytes> out);
void encode(const Answer& m, std::span<uint8_t, kHelloBytes> out);
// Nothing where it isn't such a message.
std::optional<Hello> parse_hello(Bytes payload);
std::optional<Answer> parse_answer(Bytes payload);
// What a payload claims to be; nothing where it isn't ours or of another version.
std::optional<Type> type_of(Bytes payload);

}  // namespace caravan
