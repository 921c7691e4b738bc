// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/decode.h"

#include <algorithm>
#include <cstdio>

namespace test {
namespace {

unsigned get16(const Bytes& b, size_t at) { return static_cast<unsigned>(b.at(at) << 8 | b.at(at + 1)); }
uint32_t get32(const Bytes& b, size_t at) { return get16(b, at) << 16 | get16(b, at + 2); }

void decode_tcp(Decoded& d) {
  if (d.l4.size() < 20) return;
  const size_t hlen = static_cast<size_t>(d.l4[12] >> 4) * 4;
  if (hlen < 20 || hlen > d.l4.size()) return;
  d.tcp = true;
  d.sport = static_cast<uint16_t>(get16(d.l4, 0));
  d.dport = static_cast<uint16_t>(get16(d.l4, 2));
  d.seq = get32(d.l4, 4);
  d.ack = get32(d.l4, 8);
  d.flags = static_cast<uint16_t>(get16(d.l4, 12) & 0xfff);
  d.window = static_cast<uint16_t>(get16(d.l4, 14));
  d.urgent = static_cast<uint16_t>(get16(d.l4, 18));
  d.options.assign(d.l4.begin() + 20, d.l4.begin() + static_cast<long>(hlen));
  d.payload.assign(d.l4.begin() + static_cast<long>(hlen), d.l4.end());
  if (d.options.size() >= 12 && d.options[0] == 1 && d.options[1] == 1 && d.options[2] == 8 &&
      d.options[3] == 10) {
    d.has_ts = true;
    d.tsval = get32(d.options, 4);
    d.tsecr = get32(d.options, 8);
  }
}

}  // namespace

Decoded decode(const Bytes& frame, bool ethernet) {
  Decoded d;
  d.frame = frame;
  unsigned type;
  if (ethernet) {
    if (frame.size() < 14) return d;
    std::copy_n(frame.begin(), 6, d.dst_mac.begin());
    std::copy_n(frame.begin() + 6, 6, d.src_mac.begin());
    type = get16(frame, 12);
    d.l2_len = 14;
    while ((type == 0x8100 || type == 0x88a8 || type == 0x9100) && frame.size() >= d.l2_len + 4) {
      d.tags.push_back({static_cast<uint16_t>(type), static_cast<uint16_t>(get16(frame, d.l2_len))});
      type = get16(frame, d.l2_len + 2);
      d.l2_len += 4;
    }
  } else {
    if (frame.empty()) return d;
    type = frame[0] >> 4 == 4 ? 0x0800 : 0x86dd;
  }
  const size_t have = frame.size() - d.l2_len;
  const size_t at = d.l2_len;
  if (type == 0x0800 && have >= 20 && frame[at] >> 4 == 4) {
    d.l3_len = static_cast<size_t>(frame[at] & 15) * 4;
    d.ip_len = get16(frame, at + 2);
    if (d.l3_len < 20 || d.ip_len < d.l3_len || have < d.ip_len) return d;
    d.version = 4;
    d.tos = frame[at + 1];
    d.id = static_cast<uint16_t>(get16(frame, at + 4));
    const unsigned frag = get16(frame, at + 6);
    d.reserved = (frag & 0x8000) != 0;
    d.df = (frag & 0x4000) != 0;
    d.mf = (frag & 0x2000) != 0;
    d.frag_offset = static_cast<uint16_t>(frag & 0x1fff);
    d.ttl = frame[at + 8];
    d.proto = frame[at + 9];
    std::copy_n(frame.begin() + static_cast<long>(at) + 12, 4, d.src.begin());
    std::copy_n(frame.begin() + static_cast<long>(at) + 16, 4, d.dst.begin());
    d.ip_ok = internet_checksum(word_sum(frame.data() + at, d.l3_len)) == 0;
  } else if (type == 0x86dd && have >= 40 && frame[at] >> 4 == 6) {
    d.l3_len = 40;
    d.ip_len = 40 + get16(frame, at + 4);
    if (have < d.ip_len) return d;
    d.version = 6;
    d.tos = static_cast<uint8_t>(get32(frame, at) >> 20);
    d.flow_label = get32(frame, at) & 0xfffff;
    d.proto = frame[at + 6];
    d.ttl = frame[at + 7];
    std::copy_n(frame.begin() + static_cast<long>(at) + 8, 16, d.src.begin());
    std::copy_n(frame.begin() + static_cast<long>(at) + 24, 16, d.dst.begin());
    d.ip_ok = true;
  } else {
    return d;
  }
  d.trailer = have - d.ip_len;
  d.l4.assign(frame.begin() + static_cast<long>(at + d.l3_len),
              frame.begin() + static_cast<long>(at + d.ip_len));
  if (d.mf || d.frag_offset != 0) return d;
  uint64_t sum = word_sum(d.l4.data(), d.l4.size());
  if (d.proto != 1) sum += pseudo_header_sum(d.version, d.src, d.dst, d.proto, d.l4.size());
  d.checksum_ok = internet_checksum(sum) == 0;
  if (d.proto == 6) decode_tcp(d);
  return d;
}

Bytes Decoded::fixed_options() const {
  Bytes o = options;
  if (has_ts) o.erase(o.begin() + 4, o.begin() + 12);
  return o;
}

unsigned Decoded::mss() const {
  for (size_t i = 0; i < options.size();) {
    if (options[i] == 0) break;
    if (options[i] == 1) {
      ++i;
      continue;
    }
    if (i + 1 >= options.size() || options[i + 1] < 2) break;
    if (options[i] == 2 && options[i + 1] == 4 && i + 4 <= options.size())
      return get16(options, i + 2);
    i += options[i + 1];
  }
  return 0;
}

Bytes Decoded::ip() const {
  return {frame.begin() + static_cast<long>(l2_len),
          frame.begin() + static_cast<long>(l2_len + ip_len)};
}

std::string Decoded::text() const {
  char b[256];
  if (!tcp) {
    std::snprintf(b, sizeof b, "[%zu B, ip%d proto %u, %s]", frame.size(), version, proto,
                  to_hex(frame, 64).c_str());
    return b;
  }
  std::snprintf(b, sizeof b,
                "[%zu B ip%d %u>%u seq %u +%zu ack %u fl %03x win %u tos %02x ttl %u id %u %s%s]",
                frame.size(), version, sport, dport, seq, payload.size(), ack, flags, window, tos,
                ttl, id, has_ts ? "ts " : "", checksum_ok ? "ok" : "BAD");
  return b;
}

}  // namespace test
