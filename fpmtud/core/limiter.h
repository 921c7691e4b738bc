// SPDX-License-Identifier: BSD-3-Clause
// Allowances by source and in all: token buckets in a fixed table. A source is an IPv4 address or
// an IPv6 /64. One thread.
#pragma once
#include <memory>

#include "fpmtud/core/base.h"

namespace fpmtud {

// Tokens are bytes received or to be sent on someone's behalf.
struct Allowance {
  uint64_t per_second = 0;
  uint64_t burst = 0;
};

class Bucket {
 public:
  // Takes n tokens if they are there.
  bool take(const Allowance& a, uint64_t n, Time now);
  bool has(const Allowance& a, uint64_t n, Time now);
  Time used() const { return at_; }

 private:
  void fill(const Allowance& a, Time now);
  uint64_t tokens_ = 0;
  Time at_{-1};  // negative: never used, full
};

class Limiter {
 public:
  // `secret` keeps strangers from choosing sources that displace each other.
  Limiter(Allowance per_source, Allowance total, uint64_t secret);
  // Whether n tokens are there for this source, and takes them.
  bool take(const Endpoint& from, uint64_t n, Time now);
  // Whether the source could take that many more.
  bool has(const Endpoint& from, uint64_t n, Time now);

 private:
  struct Entry {
    std::array<uint8_t, 9> source{};
    Bucket bucket;
  };
  static constexpr uint32_t kSets = 1024, kWays = 4;
  Entry& entry_of(const Endpoint& from);
  Allowance per_source_, total_;
  uint64_t secret_;
  Bucket all_;
  std::unique_ptr<Entry[]> entries_;
};

// Mixes bytes with a secret; good enough to spread, not to authenticate.
uint64_t spread(const uint8_t* bytes, size_t n, uint64_t secret);

}  // namespace fpmtud
