// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/log.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

namespace pxgw {
namespace {

// Enough for all that is said at start; what repeats after that is thinned.
constexpr double kBurstLines = 100, kLinesPerSecond = 5;

class Limiter {
 public:
  bool take() {
    const auto now = std::chrono::steady_clock::now();
    tokens_ =
        std::min(kBurstLines,
                 tokens_ + kLinesPerSecond * std::chrono::duration<double>(now - last_).count());
    last_ = now;
    if (tokens_ < 1) {
      ++left_out_;
      return false;
    }
    tokens_ -= 1;
    return true;
  }
  uint64_t take_left_out() { return std::exchange(left_out_, 0); }

 private:
  double tokens_ = kBurstLines;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  uint64_t left_out_ = 0;
};

void print(std::string_view level, std::string_view text) {
  const auto now = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  fmt::print(stderr, "{:%Y-%m-%dT%H:%M:%S}.{:03}Z pxgw: {}{}\n",
             fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms, level, text);
}

}  // namespace

void log_line(Level level, std::string_view text) {
  static Limiter limiter;
  if (!limiter.take()) return;
  if (const uint64_t n = limiter.take_left_out(); n != 0)
    print("", fmt::format("{} lines left out", n));
  print(level == Level::kInfo ? "" : level == Level::kWarning ? "warning: " : "error: ", text);
}

}  // namespace pxgw
