// SPDX-License-Identifier: BSD-3-Clause
// Reads packets for tests, independently of what is tested: plain, slow, and refusing what it doesn't
// understand.
#pragma once
#include <chrono>
#include <string>

#include "tests/support/builder.h"

namespace test {

struct Decoded {
  Bytes frame;                        // as it was
  std::chrono::nanoseconds time{0};   // when it left
  uint16_t segsz = 0;                 // leaves as segments of this payload: it came merged and untranslated
  Mac dst_mac{}, src_mac{};
  std::vector<Tag> tags;
  int version = 0;  // 0: not IP
  uint8_t tos = 0, ttl = 0, proto = 0;
  bool df = false, mf = false, reserved = false;
  uint16_t frag_offset = 0, id = 0;
  uint32_t flow_label = 0;
  Addr src{}, dst{};
  size_t l2_len = 0, l3_len = 0, ip_len = 0;
  size_t trailer = 0;  // bytes of the frame behind the IP packet
  bool ip_ok = false;  // lengths agree and the header checksum holds
  Bytes l4;            // everything behind the IP header

  bool tcp = false;  // a whole TCP segment; what follows is its
  uint16_t sport = 0, dport = 0, flags = 0, window = 0, urgent = 0;
  uint32_t seq = 0, ack = 0;
  Bytes options, payload;
  bool checksum_ok = false;  // TCP's, UDP's or ICMP's
  bool has_ts = false;       // NOP NOP TIMESTAMPS at the front
  uint32_t tsval = 0, tsecr = 0;

  // The options with the two timestamp values taken out.
  Bytes fixed_options() const;
  uint32_t seq_end() const { return seq + static_cast<uint32_t>(payload.size()); }
  // Value of the first MSS option, 0 without one.
  unsigned mss() const;
  Bytes ip() const;  // the IP packet alone
  std::string text() const;
};

Decoded decode(const Bytes& frame, bool ethernet = true);

}  // namespace test
