// SPDX-License-Identifier: BSD-3-Clause
// Makes packets for tests. Shares no code with what is tested: its checksums and offsets are its own,
// and builder_test.cc holds it against frames that another program made.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "tests/support/frame.h"

namespace test {

inline constexpr uint16_t FIN = 0x001, SYN = 0x002, RST = 0x004, PSH = 0x008, ACK = 0x010,
                          URG = 0x020, ECE = 0x040, CWR = 0x080, AE = 0x100;

using Mac = std::array<uint8_t, 6>;
using Addr = std::array<uint8_t, 16>;  // IPv4 in the first four bytes
struct Tag {
  uint16_t tpid, tci;
  bool operator==(const Tag&) const = default;
};

Addr addr4(uint8_t a, uint8_t b, uint8_t c, uint8_t d);
Addr addr6(uint16_t first, uint16_t second, uint16_t last);

// The byte that stands at `seq` of the stream with this seed: every byte of a test's traffic tells
// where it belongs.
uint8_t stream_byte(uint32_t seed, uint32_t seq);

// Everything below the transport header.
struct Lower {
  bool ethernet = true;
  int version = 4;
  Mac dst_mac{0x02, 0, 0, 0, 0, 2}, src_mac{0x02, 0, 0, 0, 0, 1};
  std::vector<Tag> tags;
  uint8_t tos = 0, ttl = 64;
  bool df = true, mf = false, reserved = false;
  uint16_t frag_offset = 0;  // in units of 8 bytes
  uint16_t id = 0;
  uint32_t flow_label = 0;
  Addr src = addr4(10, 0, 0, 1), dst = addr4(203, 0, 113, 1);
  Bytes ip_options;  // IPv4, a multiple of 4 bytes
  // IPv6: headers between the fixed one and the transport's, each with its type; the "next" byte of
  // each is filled in.
  std::vector<std::pair<uint8_t, Bytes>> extensions;
};

// The frame of an IP packet with that transport header and payload. Adds no padding.
Bytes ip_frame(const Lower& lower, uint8_t proto, const Bytes& l4);

// Sum over big-endian words, the last odd byte padded, not folded or complemented.
uint64_t word_sum(const uint8_t* data, size_t len);
uint16_t internet_checksum(uint64_t sum);
uint64_t pseudo_header_sum(int version, const Addr& src, const Addr& dst, uint8_t proto,
                           size_t l4_len);

class Tcp {
 public:
  Lower lower;
  uint16_t sport = 40000, dport = 443;
  uint32_t seq_no = 1, ack_no = 1;
  uint16_t flag_bits = ACK, win = 1000, urgent = 0;
  Bytes opts;
  Bytes payload;
  uint32_t seed = 0;

  Tcp& seq(uint32_t v) { return seq_no = v, *this; }
  Tcp& ack(uint32_t v) { return ack_no = v, *this; }
  Tcp& flags(uint16_t v) { return flag_bits = v, *this; }
  Tcp& add_flags(unsigned v) { return flag_bits = static_cast<uint16_t>(flag_bits | v), *this; }
  Tcp& window(uint16_t v) { return win = v, *this; }
  Tcp& urg(uint16_t v) { return urgent = v, *this; }
  // Payload of n bytes of the stream from the sequence number that build() will see.
  Tcp& data(size_t n) { return stream_len_ = n, payload.clear(), *this; }
  Tcp& bytes(Bytes b) { return payload = std::move(b), stream_len_ = 0, *this; }
  Tcp& option(std::initializer_list<int> b);
  Tcp& options(Bytes b) { return opts = std::move(b), *this; }
  Tcp& mss(uint16_t v) { return option({2, 4, v >> 8, v & 255}); }
  Tcp& ts(uint32_t val, uint32_t ecr);  // two NOPs before, as everyone sends it
  Tcp& vlan(uint16_t tci, uint16_t tpid = 0x8100) {
    return lower.tags.push_back({tpid, tci}), *this;
  }
  Tcp& tos(uint8_t v) { return lower.tos = v, *this; }
  Tcp& ttl(uint8_t v) { return lower.ttl = v, *this; }
  Tcp& id(uint16_t v) { return lower.id = v, *this; }
  Tcp& df(bool v) { return lower.df = v, *this; }
  // Frames shorter than this get filler behind the IP packet.
  Tcp& pad_to(size_t n, uint8_t filler = 0xee) { return pad_to_ = n, filler_ = filler, *this; }
  // The checksum is wrong by this much.
  Tcp& damage(uint16_t by = 0x0100) { return damage_ = by, *this; }
  // What the data offset says, in words, whatever the header's length is.
  Tcp& data_offset(unsigned words) { return doff_ = words, *this; }
  Tcp& cut(std::vector<uint32_t> at) { return cuts_ = std::move(at), *this; }
  Tcp& rx(uint64_t ol_flags, uint16_t segsz = 0) { return ol_ = ol_flags, segsz_ = segsz, *this; }

  size_t payload_len() const { return stream_len_ != 0 ? stream_len_ : payload.size(); }
  size_t header_len() const { return 20 + (opts.size() + 3) / 4 * 4; }
  uint32_t seq_end() const { return seq_no + static_cast<uint32_t>(payload_len()); }
  Bytes l4() const;  // TCP header and payload with the checksum
  Frame build() const;
  pxio::PktPtr build(pxio::Buffers buffers) const { return to_mbuf(build(), buffers); }
  operator Frame() const { return build(); }

 private:
  size_t stream_len_ = 0, pad_to_ = 0;
  uint8_t filler_ = 0;
  uint16_t damage_ = 0;
  std::optional<unsigned> doff_;
  std::vector<uint32_t> cuts_;
  uint64_t ol_ = 0;
  uint16_t segsz_ = 0;
};

Tcp tcp4();
Tcp tcp6();

Frame udp(const Lower& lower, uint16_t sport, uint16_t dport, size_t payload_len);
Frame udp(const Lower& lower, uint16_t sport, uint16_t dport, const Bytes& payload);

// An error from `lower.src` to `lower.dst` (addresses of either version) that quotes `quote`, the bytes
// of an IP packet, cut by the caller. IPv4: type 3 code 4; IPv6: type 2.
Frame too_big(const Lower& lower, uint32_t mtu, const Bytes& quote);

}  // namespace test
