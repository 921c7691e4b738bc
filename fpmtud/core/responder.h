// SPDX-License-Identifier: BSD-3-Clause
// The far end: answers each probe with a report of what has arrived of its round, and checks
// requests for rounds the other way. Fixed memory; no sockets, no clock. One thread.
#pragma once
#include <memory>
#include <optional>
#include <span>

#include "fpmtud/core/limiter.h"
#include "fpmtud/core/tally.h"
#include "fpmtud/core/wire.h"

namespace fpmtud {

struct ResponderConfig {
  Allowance per_source{8u << 20, 16u << 20};  // bytes a second, and at once
  Allowance total{128u << 20, 256u << 20};
  std::optional<Key> key;  // then unsigned messages are ignored, and all that is sent is signed
  bool reverse = true;     // whether rounds are sent on request
  Nonce secret{};          // random: of cookies and tables
};

// A datagram as it arrived.
struct Arrival {
  Endpoint from;
  std::span<const uint8_t> payload;  // of a probe its header is enough, if `length` is given
  uint16_t fragment = 0;  // the largest of its fragments, 0 if it came whole
  uint8_t ttl = 0;        // 0: not known
  size_t length = 0;      // of the whole payload; 0: that of `payload`
};

struct ResponderCounters {
  uint64_t probes = 0, reports = 0, requests = 0, rounds = 0;
  uint64_t drop_not_ours = 0, drop_unsigned = 0, drop_limit = 0, drop_cookie = 0, drop_refused = 0;
};

class Responder {
 public:
  explicit Responder(const ResponderConfig& config);

  // The report to send back to where it came from; its length, 0 for none. It is never longer than
  // the datagram that it answers. `request` is filled where that many probes may now be sent there.
  size_t answer(const Arrival& a, Time now, std::span<uint8_t, kReportBytes> out,
                std::optional<Request>& request);

  const ResponderCounters& counters() const { return counters_; }
  const Key* key() const { return config_.key ? &*config_.key : nullptr; }

 private:
  struct Entry {
    Endpoint from;
    Nonce nonce{};
    uint8_t round = 0;
    Time used{-1};
    RoundTally tally;
  };
  static constexpr uint32_t kSets = 512, kWays = 4;
  static constexpr Time kLifetime = std::chrono::seconds(1);

  bool may_send(const Endpoint& to, const Request& r, Time now);
  const Tally& record(const Endpoint& from, const Probe& p, uint16_t fragment, Time now);
  uint64_t cookie(const Endpoint& from, const Nonce& nonce, int64_t epoch) const;
  bool cookie_ok(const Endpoint& from, const Request& r, Time now) const;

  ResponderConfig config_;
  uint64_t table_secret_;
  Key cookie_key_;
  Limiter limiter_;
  ResponderCounters counters_;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace fpmtud
