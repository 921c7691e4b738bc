// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <algorithm>
#include <ostream>
#include <vector>

#include <cstdint>

namespace test {

// Byte strings that say where they differ, instead of printing kilobytes.
class SameBytes {
 public:
  SameBytes(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b)
      : a_(a.size()), b_(b.size()) {
    at_ = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                              a.begin());
    same_ = a == b;
  }
  explicit operator bool() const { return same_; }
  bool operator!() const { return !same_; }
  friend std::ostream& operator<<(std::ostream& o, const SameBytes& s) {
    return o << s.a_ << " and " << s.b_ << " bytes, the same up to byte " << s.at_;
  }

 private:
  size_t a_, b_, at_;
  bool same_;
};
inline SameBytes same_bytes(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  return {a, b};
}

}  // namespace test
