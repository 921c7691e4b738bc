// SPDX-License-Identifier: BSD-3-Clause
// The messages of docs/fpmtud-protocol.md, and their encoding. Any thread; nothing is allocated.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "fpmtud/core/base.h"
#include "fpmtud/core/mac.h"

namespace fpmtud {

using Bytes = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;

inline constexpr uint16_t kDefaultPort = 7474;

enum class Type : uint8_t { kProbe = 1, kReport = 2, kRequest = 3 };

enum Flag : uint8_t {
  kFragmentable = 1,  // the probe may be fragmented on its way
  kSigned = 2,        // the last 16 bytes of the header are a MAC
  kReverse = 4,       // a probe from the responder to the prober
  kLast = 8,          // the last probe of its round
  kLimited = 16,      // a report: the sender's allowance is used up
  kWantCookie = 32,   // a probe: its report shall bear a cookie
};

struct Head {
  uint8_t flags = 0;
  uint8_t round = 0;
  Nonce nonce{};
};

// Padded with zeros up to `size`.
struct Probe {
  Head head;
  uint16_t seq = 0;   // within its round
  uint16_t size = 0;  // of the IP datagram
  uint16_t top = 0;   // the largest size that the sender tries
  uint64_t sent = 0;  // the sender's clock, returned as it is
};

// What has arrived of a round. The responder counts each probe once.
struct Tally {
  uint16_t whole = 0;             // unfragmentable probes that arrived in one piece
  uint16_t largest_whole = 0;     // the largest of them
  uint16_t fragmentable = 0;      // fragmentable probes that arrived
  uint16_t largest_fragment = 0;  // the largest fragment of any of those; 0: none was cut
  uint16_t uncut = 0;             // the largest of those that weren't cut
  uint16_t cut_anyway = 0;        // the largest unfragmentable probe that arrived in fragments
  friend bool operator==(const Tally&, const Tally&) = default;
};

// The answer to one probe, whose seq, size and sent it returns.
struct Report {
  Head head;
  uint16_t seq = 0;
  uint16_t size = 0;
  uint16_t fragment = 0;  // the largest fragment of this probe; 0: it came in one piece
  uint8_t ttl = 0;        // TTL or hop limit with which it arrived; 0: not known
  uint64_t sent = 0;
  Tally tally;
  uint64_t cookie = 0;
};

// What a round consists of: see core/ladder.h.
enum class RoundKind : uint8_t { kFull = 1, kConfirm = 2, kEverySize = 3, kKnock = 4 };

struct RoundSpec {
  RoundKind kind = RoundKind::kFull;
  uint16_t low = 0, high = 0;  // sizes, both included where they are tried
  uint16_t top = 0;
};

// Asks the responder to send a round. The cookie proves that the sender gets what is sent to it.
struct Request {
  Head head;
  RoundSpec spec;
  uint64_t sent = 0;
  uint64_t cookie = 0;
};

inline constexpr size_t kProbeBytes = 56, kReportBytes = 80, kRequestBytes = 64;

// Writes the header at the front of `out`, which is the UDP payload and for probes holds the
// padding, too; all of it is written. Signs where a key is given. `out` too small: a failed
// assertion.
void encode(const Probe& m, const Key* key, MutableBytes out);
void encode(const Report& m, const Key* key, MutableBytes out);
void encode(const Request& m, const Key* key, MutableBytes out);

// Nothing where it isn't such a message, or not signed with the key that is given. `payload` is the
// UDP payload. A probe's size must be that of the datagram; where `whole`, the length of all of its payload,
// is given, `payload` may end behind the header.
std::optional<Type> type_of(Bytes payload);
std::optional<Probe> parse_probe(Bytes payload, Family family, const Key* key, size_t whole = 0);
std::optional<Report> parse_report(Bytes payload, const Key* key);
std::optional<Request> parse_request(Bytes payload, const Key* key);

}  // namespace fpmtud
