// SPDX-License-Identifier: BSD-3-Clause
// TCP options (RFC 9293, section 3.1). Any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace pxio {

inline constexpr uint8_t kOptEnd = 0, kOptNop = 1, kOptMss = 2, kOptWindowScale = 3, kOptSackOk = 4,
                         kOptSack = 5, kOptTimestamps = 8, kOptMd5 = 19, kOptAo = 29, kOptMptcp = 30,
                         kOptFastOpen = 34;

// What the options of one segment say. Offsets count from the start of the TCP header; 0: absent.
struct TcpOptions {
  uint8_t ts_off = 0;      // of TSval; TSecr follows (RFC 7323)
  uint8_t mss_off = 0;     // of the value of the first MSS option
  uint8_t mss_count = 0;   // MSS options of the right length
  bool signed_ = false;    // TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925)
  bool mptcp = false;      // RFC 8684
  bool malformed = false;  // a length below 2 or past the end, or a known option of the wrong length
};

// Parses the options of a TCP header of `header_len` bytes (20 ... 60) at `tcp`. What is malformed
// ends the walk; what was found before it is reported all the same.
TcpOptions parse_tcp_options(const uint8_t* tcp, unsigned header_len) noexcept;

// Calls f(offset of the value) for each MSS option of the right length.
template <typename F>
void for_each_mss(const uint8_t* tcp, unsigned header_len, F f) {
  for (unsigned i = 20; i + 1 < header_len;) {
    if (tcp[i] == kOptEnd) return;
    if (tcp[i] == kOptNop) {
      ++i;
      continue;
    }
    const unsigned len = tcp[i + 1];
    if (len < 2 || i + len > header_len) return;
    if (tcp[i] == kOptMss && len == 4) f(i + 2);
    i += len;
  }
}

}  // namespace pxio
