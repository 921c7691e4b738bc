// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/tcp_options.h"

#include <cstring>

namespace pxio {
namespace {

// NOP NOP TIMESTAMPS: what nearly every data segment of a flow with timestamps carries (RFC 7323,
// appendix A).
constexpr uint8_t kAlignedTimestamps[4] = {kOptNop, kOptNop, kOptTimestamps, 10};

}  // namespace

TcpOptions parse_tcp_options(const uint8_t* tcp, unsigned header_len) noexcept {
  TcpOptions r;
  if (header_len == 32 && std::memcmp(tcp + 20, kAlignedTimestamps, 4) == 0) {
    r.ts_off = 24;
    return r;
  }
  for (unsigned i = 20; i < header_len;) {
    const uint8_t kind = tcp[i];
    if (kind == kOptEnd) break;
    if (kind == kOptNop) {
      ++i;
      continue;
    }
    if (i + 1 >= header_len || tcp[i + 1] < 2 || i + tcp[i + 1] > header_len) {
      r.malformed = true;
      break;
    }
    const uint8_t len = tcp[i + 1];
    switch (kind) {
      case kOptMss:
        if (len != 4) {
          r.malformed = true;
        } else {
          if (r.mss_count++ == 0) r.mss_off = static_cast<uint8_t>(i + 2);
        }
        break;
      case kOptTimestamps:
        // A second one is out of the ordinary: no place to put its values after a merge.
        if (len != 10 || r.ts_off != 0) {
          r.malformed = true;
        } else {
          r.ts_off = static_cast<uint8_t>(i + 2);
        }
        break;
      case kOptMd5:
      case kOptAo:
        r.signed_ = true;
        break;
      case kOptMptcp:
        r.mptcp = true;
        break;
      default:
        break;
    }
    i += len;
  }
  return r;
}

}  // namespace pxio
