// SPDX-License-Identifier: BSD-3-Clause
// The gateway's side of the hello: answers, and enters hosts into the table. Nothing is kept of a
// host that hasn't proved that it gets what is sent to its address. One thread; several registrars
// may share one table, given the same secret and session.
#pragma once
#include "caravan/core/hosts.h"

namespace caravan {

struct RegistrarConfig {
  uint16_t largest = 9000;  // caravans towards hosts, and from them: the inside MTU
  std::chrono::milliseconds longest_life{10'000};
  uint32_t per_second = 10'000;  // hellos answered, over all hosts
  Secret secret{};               // random: of cookies
  uint64_t session = 0;          // random, for each start; not 0
};

struct RegistrarCounters {
  uint64_t hellos = 0, registered = 0, renewed = 0, unregistered = 0, cookies = 0;
  uint64_t drop_malformed = 0, drop_limit = 0, refused_full = 0;
};

class Registrar {
 public:
  Registrar(HostTable& hosts, const RegistrarConfig& config);

  // The answer to a hello that came from `from`, which the caller knows to be an inside address on
  // an inside port: kHelloBytes, as long as the hello; or nothing. `out` may be the hello's own
  // bytes.
  bool answer(const Address& from, Bytes payload, Time now,
              std::span<uint8_t, kHelloBytes> out) noexcept;
  void set_largest(uint16_t largest) noexcept { config_.largest = largest; }
  const RegistrarCounters& counters() const noexcept { return count_; }

 private:
  uint64_t cookie(const Address& of, int64_t epoch) const noexcept;
  bool cookie_ok(const Address& of, uint64_t cookie, Time now) const noexcept;
  bool allowed(Time now) noexcept;

  HostTable& hosts_;
  RegistrarConfig config_;
  RegistrarCounters count_;
  Time second_{-1};
  uint32_t in_second_ = 0;
};

}  // namespace caravan
