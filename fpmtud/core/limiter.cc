// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/core/limiter.h"

#include <algorithm>

namespace fpmtud {

uint64_t spread(const uint8_t* bytes, size_t n, uint64_t secret) {
  // The finalizer of SplitMix64 (Steele et al., 2014) over each word.
  uint64_t h = secret ^ n;
  for (size_t i = 0; i < n; i += 8) {
    uint64_t word = 0;
    for (size_t k = i; k < std::min(n, i + 8); ++k) word = word << 8 | bytes[k];
    h += word + 0x9e3779b97f4a7c15ull;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
    h = (h ^ (h >> 31)) + secret;
  }
  return h;
}

void Bucket::fill(const Allowance& a, Time now) {
  if (at_ < Time(0)) {
    tokens_ = a.burst;
    at_ = now;
    return;
  }
  // A second and more fills any bucket that is worth its name; it also keeps the product small.
  const double seconds = std::chrono::duration<double>(std::max(now - at_, Time(0))).count();
  const double gained = std::min(seconds * static_cast<double>(a.per_second),
                                 static_cast<double>(a.burst - std::min(a.burst, tokens_)));
  const auto whole = static_cast<uint64_t>(gained);
  if (whole == 0 && tokens_ < a.burst) return;  // what is less than a token isn't lost
  tokens_ += whole;
  at_ = std::max(at_, now);
}

bool Bucket::has(const Allowance& a, uint64_t n, Time now) {
  fill(a, now);
  return tokens_ >= n;
}

bool Bucket::take(const Allowance& a, uint64_t n, Time now) {
  if (!has(a, n, now)) return false;
  tokens_ -= n;
  return true;
}

Limiter::Limiter(Allowance per_source, Allowance total, uint64_t secret)
    : per_source_(per_source),
      total_(total),
      secret_(secret),
      entries_(std::make_unique<Entry[]>(kSets * kWays)) {}

Limiter::Entry& Limiter::entry_of(const Endpoint& from) {
  std::array<uint8_t, 9> source{};
  source[0] = static_cast<uint8_t>(from.family);
  // IPv6: whoever has an address has the /64.
  std::copy_n(from.address.begin(), from.family == Family::kIpv4 ? 4 : 8, source.begin() + 1);
  Entry* set = &entries_[(spread(source.data(), source.size(), secret_) % kSets) * kWays];
  Entry* oldest = set;
  for (Entry* e = set; e < set + kWays; ++e) {
    if (e->source == source) return *e;
    if (e->bucket.used() < oldest->bucket.used()) oldest = e;
  }
  *oldest = Entry{source, Bucket{}};
  return *oldest;
}

bool Limiter::has(const Endpoint& from, uint64_t n, Time now) {
  return entry_of(from).bucket.has(per_source_, n, now) && all_.has(total_, n, now);
}

bool Limiter::take(const Endpoint& from, uint64_t n, Time now) {
  Bucket& mine = entry_of(from).bucket;
  return mine.has(per_source_, n, now) && all_.take(total_, n, now) &&
         mine.take(per_source_, n, now);
}

}  // namespace fpmtud
