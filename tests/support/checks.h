// SPDX-License-Identifier: BSD-3-Clause
// What tests of the gateway say over and over, for Catch2.
#pragma once
#include <catch2/catch.hpp>

#include "tests/support/bed.h"

namespace test {

// Bit for bit, padding and all.
inline void check_untouched(const std::vector<Decoded>& out, const std::vector<Frame>& in) {
  INFO("left:" << text_of(out));
  REQUIRE(out.size() == in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    INFO("packet " << i);
    CHECK(to_hex(out[i].frame, 120) == to_hex(in[i].bytes, 120));
    CHECK(same(out[i].frame, in[i].bytes));
  }
}

// `out` is what merging `parts` must give: promise 3, field by field.
inline void check_merged(const Decoded& out, const std::vector<Tcp>& parts, bool checksum_ok = true) {
  INFO(out.text());
  const Decoded first = decode(parts.front().build().bytes, parts.front().lower.ethernet);
  const Decoded last = decode(parts.back().build().bytes, parts.back().lower.ethernet);
  REQUIRE(out.tcp);
  Bytes payload;
  uint16_t end_flags = 0;
  for (const Tcp& t : parts) {
    const Decoded d = decode(t.build().bytes, t.lower.ethernet);
    payload.insert(payload.end(), d.payload.begin(), d.payload.end());
    end_flags = static_cast<uint16_t>(end_flags | (d.flags & (PSH | FIN)));
  }
  CHECK(out.payload.size() == payload.size());
  CHECK(same(out.payload, payload));
  CHECK(out.seq == first.seq);
  CHECK(out.tsval == first.tsval);
  CHECK(out.ack == last.ack);
  CHECK(out.window == last.window);
  CHECK(out.tsecr == last.tsecr);
  CHECK(out.flags == ((first.flags & ~(PSH | FIN)) | end_flags));
  CHECK(out.fixed_options() == first.fixed_options());
  CHECK(out.dst_mac == first.dst_mac);
  CHECK(out.src_mac == first.src_mac);
  CHECK(out.tags == first.tags);
  CHECK(out.src == first.src);
  CHECK(out.dst == first.dst);
  CHECK(out.sport == first.sport);
  CHECK(out.dport == first.dport);
  CHECK(out.tos == first.tos);
  CHECK(out.ttl == first.ttl);
  CHECK(out.df == first.df);
  CHECK(out.reserved == first.reserved);
  CHECK(out.id == first.id);
  CHECK(out.flow_label == first.flow_label);
  CHECK(out.urgent == 0);
  CHECK(out.ip_ok);
  CHECK(out.trailer == 0);
  CHECK(out.checksum_ok == checksum_ok);
}

// `out` is what splitting `t` must give, with pieces of `piece` bytes: headers, flags and tiling.
inline void check_split(const std::vector<Decoded>& out, const Tcp& t, size_t piece,
                        bool cwr_everywhere = false) {
  const Decoded whole = decode(t.build().bytes, t.lower.ethernet);
  INFO("left:" << text_of(out));
  REQUIRE(out.size() == (whole.payload.size() + piece - 1) / piece);
  CHECK(same(payload_of(out), whole.payload));
  uint32_t seq = whole.seq;
  for (size_t i = 0; i < out.size(); ++i) {
    const Decoded& d = out[i];
    INFO("piece " << i << " " << d.text());
    const bool last = i + 1 == out.size();
    REQUIRE(d.tcp);
    CHECK(d.payload.size() == (last ? whole.payload.size() - i * piece : piece));
    CHECK(d.seq == seq);
    seq += static_cast<uint32_t>(d.payload.size());
    unsigned flags = whole.flags;
    if (!last) flags &= ~unsigned{PSH | FIN};
    if (i != 0 && !cwr_everywhere) flags &= ~unsigned{CWR};
    CHECK(d.flags == flags);
    CHECK(d.ack == whole.ack);
    CHECK(d.window == whole.window);
    CHECK(d.options == whole.options);
    CHECK(d.dst_mac == whole.dst_mac);
    CHECK(d.src_mac == whole.src_mac);
    CHECK(d.tags == whole.tags);
    CHECK(d.src == whole.src);
    CHECK(d.dst == whole.dst);
    CHECK(d.sport == whole.sport);
    CHECK(d.dport == whole.dport);
    CHECK(d.tos == whole.tos);
    CHECK(d.ttl == whole.ttl);
    CHECK(d.df == whole.df);
    CHECK(d.reserved == whole.reserved);
    CHECK(d.flow_label == whole.flow_label);
    if (d.version == 4) CHECK(d.id == static_cast<uint16_t>(whole.id + i));
    CHECK(d.urgent == 0);
    CHECK(d.ip_ok);
    CHECK(d.trailer == 0);
    CHECK(d.checksum_ok);
  }
}

}  // namespace test
