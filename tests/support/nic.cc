// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/nic.h"

#include <algorithm>
#include <stdexcept>

#include "tests/support/builder.h"

namespace test {
namespace {

unsigned get16(const Bytes& b, size_t at) { return unsigned{b[at]} << 8 | b[at + 1]; }
void put16(Bytes& b, size_t at, size_t v) {
  b[at] = static_cast<uint8_t>(v >> 8);
  b[at + 1] = static_cast<uint8_t>(v);
}

}  // namespace

std::vector<Bytes> cut_as_nic(const Bytes& frame, size_t l2, size_t l3, size_t l4, size_t size) {
  const size_t headers = l2 + l3 + l4;
  if (size == 0 || frame.size() <= headers) throw std::logic_error("nothing to cut");
  const bool v4 = frame[l2] >> 4 == 4;
  const unsigned id = v4 ? get16(frame, l2 + 4) : 0;
  const size_t seq_at = l2 + l3 + 4, flags_at = l2 + l3 + 13, sum_at = l2 + l3 + 16;
  const uint32_t seq = uint32_t{get16(frame, seq_at)} << 16 | get16(frame, seq_at + 2);
  std::vector<Bytes> out;
  for (size_t from = headers; from < frame.size(); from += size) {
    const size_t to = std::min(from + size, frame.size());
    Bytes b(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(headers));
    b.insert(b.end(), frame.begin() + static_cast<std::ptrdiff_t>(from),
             frame.begin() + static_cast<std::ptrdiff_t>(to));
    const uint32_t s = seq + static_cast<uint32_t>(from - headers);
    put16(b, seq_at, s >> 16);
    put16(b, seq_at + 2, s & 0xffff);
    if (to != frame.size()) b[flags_at] = static_cast<uint8_t>(b[flags_at] & ~(FIN | PSH));
    if (from != headers) b[flags_at] = static_cast<uint8_t>(b[flags_at] & ~CWR);
    const size_t segment = b.size() - l2 - l3;
    Addr src{}, dst{};
    if (v4) {
      put16(b, l2 + 2, b.size() - l2);
      put16(b, l2 + 4, id + out.size());
      put16(b, l2 + 10, 0);
      put16(b, l2 + 10, internet_checksum(word_sum(b.data() + l2, l3)));
      std::copy_n(b.data() + l2 + 12, 4, src.begin());
      std::copy_n(b.data() + l2 + 16, 4, dst.begin());
    } else {
      put16(b, l2 + 4, b.size() - l2 - 40);
      std::copy_n(b.data() + l2 + 8, 16, src.begin());
      std::copy_n(b.data() + l2 + 24, 16, dst.begin());
    }
    put16(b, sum_at, 0);
    put16(b, sum_at, internet_checksum(pseudo_header_sum(v4 ? 4 : 6, src, dst, 6, segment) +
                                       word_sum(b.data() + l2 + l3, segment)));
    out.push_back(std::move(b));
  }
  return out;
}

}  // namespace test
