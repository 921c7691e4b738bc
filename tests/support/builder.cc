// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/builder.h"

#include <stdexcept>

namespace test {
namespace {

void put16(Bytes& b, unsigned v) {
  b.push_back(static_cast<uint8_t>(v >> 8));
  b.push_back(static_cast<uint8_t>(v));
}
void put32(Bytes& b, uint32_t v) {
  put16(b, v >> 16);
  put16(b, v & 0xffff);
}
void set16(Bytes& b, size_t at, unsigned v) {
  b.at(at) = static_cast<uint8_t>(v >> 8);
  b.at(at + 1) = static_cast<uint8_t>(v);
}
void put(Bytes& b, const uint8_t* p, size_t n) { b.insert(b.end(), p, p + n); }

}  // namespace

Addr addr4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) { return {a, b, c, d}; }
Addr addr6(uint16_t first, uint16_t second, uint16_t last) {
  Addr a{};
  a[0] = static_cast<uint8_t>(first >> 8);
  a[1] = static_cast<uint8_t>(first);
  a[2] = static_cast<uint8_t>(second >> 8);
  a[3] = static_cast<uint8_t>(second);
  a[14] = static_cast<uint8_t>(last >> 8);
  a[15] = static_cast<uint8_t>(last);
  return a;
}

uint8_t stream_byte(uint32_t seed, uint32_t seq) {
  uint32_t x = (seq + seed * 0x85ebca6bu) * 0x9e3779b1u;
  x ^= x >> 15;
  return static_cast<uint8_t>(x * 0x2c1b3c6du >> 24);
}

uint64_t word_sum(const uint8_t* data, size_t len) {
  uint64_t sum = 0;
  for (size_t i = 0; i + 1 < len; i += 2) sum += static_cast<unsigned>(data[i] << 8 | data[i + 1]);
  if (len % 2 != 0) sum += static_cast<unsigned>(data[len - 1] << 8);
  return sum;
}

uint16_t internet_checksum(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

uint64_t pseudo_header_sum(int version, const Addr& src, const Addr& dst, uint8_t proto,
                           size_t l4_len) {
  const size_t n = version == 4 ? 4 : 16;
  return word_sum(src.data(), n) + word_sum(dst.data(), n) + proto + (l4_len >> 16) +
         (l4_len & 0xffff);
}

Bytes ip_frame(const Lower& lo, uint8_t proto, const Bytes& l4) {
  Bytes b;
  if (lo.ethernet) {
    put(b, lo.dst_mac.data(), 6);
    put(b, lo.src_mac.data(), 6);
    for (const Tag& t : lo.tags) {
      put16(b, t.tpid);
      put16(b, t.tci);
    }
    put16(b, lo.version == 4 ? 0x0800 : 0x86dd);
  }
  if (lo.version == 4) {
    const size_t at = b.size();
    const size_t ihl = 20 + lo.ip_options.size();
    b.push_back(static_cast<uint8_t>(0x40 | ihl / 4));
    b.push_back(lo.tos);
    put16(b, static_cast<unsigned>(ihl + l4.size()));
    put16(b, lo.id);
    put16(b, (lo.reserved ? 0x8000u : 0u) | (lo.df ? 0x4000u : 0u) | (lo.mf ? 0x2000u : 0u) |
                 lo.frag_offset);
    b.push_back(lo.ttl);
    b.push_back(proto);
    put16(b, 0);
    put(b, lo.src.data(), 4);
    put(b, lo.dst.data(), 4);
    put(b, lo.ip_options.data(), lo.ip_options.size());
    set16(b, at + 10, internet_checksum(word_sum(b.data() + at, ihl)));
  } else {
    size_t ext_len = 0;
    for (const auto& e : lo.extensions) ext_len += e.second.size();
    put32(b, 6u << 28 | uint32_t{lo.tos} << 20 | lo.flow_label);
    put16(b, static_cast<unsigned>(ext_len + l4.size()));
    b.push_back(lo.extensions.empty() ? proto : lo.extensions[0].first);
    b.push_back(lo.ttl);
    put(b, lo.src.data(), 16);
    put(b, lo.dst.data(), 16);
    for (size_t i = 0; i < lo.extensions.size(); ++i) {
      Bytes e = lo.extensions[i].second;
      e.at(0) = i + 1 < lo.extensions.size() ? lo.extensions[i + 1].first : proto;
      put(b, e.data(), e.size());
    }
  }
  put(b, l4.data(), l4.size());
  return b;
}

Tcp& Tcp::option(std::initializer_list<int> b) {
  for (int v : b) opts.push_back(static_cast<uint8_t>(v));
  return *this;
}

Tcp& Tcp::ts(uint32_t val, uint32_t ecr) {
  option({1, 1, 8, 10});
  put32(opts, val);
  put32(opts, ecr);
  return *this;
}

Bytes Tcp::l4() const {
  Bytes b;
  const size_t hlen = header_len();
  if (hlen > 60) throw std::logic_error("TCP header too long");
  put16(b, sport);
  put16(b, dport);
  put32(b, seq_no);
  put32(b, ack_no);
  put16(b, static_cast<unsigned>(doff_.value_or(static_cast<unsigned>(hlen / 4)) << 12) |
               flag_bits);
  put16(b, win);
  put16(b, 0);
  put16(b, urgent);
  put(b, opts.data(), opts.size());
  b.resize(hlen);
  if (stream_len_ != 0) {
    for (size_t i = 0; i < stream_len_; ++i)
      b.push_back(stream_byte(seed, seq_no + static_cast<uint32_t>(i)));
  } else {
    put(b, payload.data(), payload.size());
  }
  const uint64_t sum = word_sum(b.data(), b.size()) +
                       pseudo_header_sum(lower.version, lower.src, lower.dst, 6, b.size());
  set16(b, 16, static_cast<uint16_t>(internet_checksum(sum) + damage_));
  return b;
}

Frame Tcp::build() const {
  Frame f;
  f.bytes = ip_frame(lower, 6, l4());
  if (f.bytes.size() < pad_to_) f.bytes.resize(pad_to_, filler_);
  f.cuts = cuts_;
  f.ol_flags = ol_;
  f.segsz = segsz_;
  return f;
}

Tcp tcp4() { return Tcp(); }

Tcp tcp6() {
  Tcp t;
  t.lower.version = 6;
  t.lower.src = addr6(0xfd00, 1, 1);
  t.lower.dst = addr6(0x2001, 0xdb8, 1);
  return t;
}

Frame udp(const Lower& lower, uint16_t sport, uint16_t dport, size_t payload_len) {
  Bytes payload;
  for (size_t i = 0; i < payload_len; ++i) payload.push_back(stream_byte(7, static_cast<uint32_t>(i)));
  return udp(lower, sport, dport, payload);
}

Frame udp(const Lower& lower, uint16_t sport, uint16_t dport, const Bytes& payload) {
  Bytes b;
  put16(b, sport);
  put16(b, dport);
  put16(b, static_cast<unsigned>(8 + payload.size()));
  put16(b, 0);
  put(b, payload.data(), payload.size());
  const uint64_t sum = word_sum(b.data(), b.size()) +
                       pseudo_header_sum(lower.version, lower.src, lower.dst, 17, b.size());
  const uint16_t c = internet_checksum(sum);
  set16(b, 6, c == 0 ? 0xffff : c);
  return {ip_frame(lower, 17, b)};
}

Frame too_big(const Lower& lower, uint32_t mtu, const Bytes& quote) {
  Bytes b;
  if (lower.version == 4) {
    b = {3, 4, 0, 0};
  } else {
    b = {2, 0, 0, 0};
  }
  put32(b, mtu);
  put(b, quote.data(), quote.size());
  uint64_t sum = word_sum(b.data(), b.size());
  if (lower.version == 6) sum += pseudo_header_sum(6, lower.src, lower.dst, 58, b.size());
  set16(b, 2, internet_checksum(sum));
  return {ip_frame(lower, lower.version == 4 ? 1 : 58, b)};
}

}  // namespace test
