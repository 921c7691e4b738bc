// SPDX-License-Identifier: BSD-3-Clause
// A bundler and an unbundler between vectors of frames.
#pragma once
#include <map>

#include "caravan/dp/bundler.h"
#include "caravan/dp/unbundler.h"
#include "tests/support/eal.h"
#include "tests/support/ports.h"

namespace test {

inline constexpr caravan::Secret kSecret{1, 2};

// UDP in a frame, with what the port would say of it.
struct Udp {
  Lower lower{.src = addr4(198, 51, 100, 7), .dst = addr4(10, 9, 0, 2)};
  uint16_t sport = 443, dport = 50000;
  size_t size = 1200;
  bool with_checksum = true;
  uint16_t damage = 0;
  uint64_t ol_flags = 0;
  size_t pad_to = 0;
  std::vector<uint32_t> cuts = {};
  uint8_t seed = 0;
  Frame build() const {
    Frame f = udp(lower, sport, dport, size);
    const size_t at = f.bytes.size() - size - 8;
    if (size != 0) {  // each datagram of a test is another; the checksum follows
      const uint8_t old = f.bytes[at + 8];
      f.bytes[at + 8] = static_cast<uint8_t>(old ^ seed);
      uint32_t sum = static_cast<uint16_t>(~(f.bytes[at + 6] << 8 | f.bytes[at + 7]));
      sum += static_cast<uint16_t>(~(old << 8)) + (uint32_t{f.bytes[at + 8]} << 8);
      while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
      uint32_t c = ~sum & 0xffff;
      if (c == 0) c = 0xffff;
      c += damage;
      f.bytes[at + 6] = static_cast<uint8_t>(c >> 8);
      f.bytes[at + 7] = static_cast<uint8_t>(c);
    }
    if (!with_checksum) f.bytes[at + 6] = f.bytes[at + 7] = 0;
    if (f.bytes.size() < pad_to) f.bytes.resize(pad_to, 0xee);
    f.ol_flags = ol_flags;
    f.cuts = cuts;
    return f;
  }
};
inline Udp udp6() {
  Udp u;
  u.lower.version = 6;
  u.lower.src = addr6(0x2001, 0xdb8, 7);
  u.lower.dst = addr6(0xfd00, 9, 2);
  return u;
}

class CaravanBed {
 public:
  explicit CaravanBed(const caravan::Bundler::Limits& limits = {}, uint32_t slots = 64,
                      uint16_t port_segs = 64)
      : hosts(64, kSecret),
        out_tx(out_port, 0),
        bundler(hosts, slots, limits, {&out_tx, &hold}, count, 99),
        unbundler({.max_segs = port_segs}, pools().buffers(), count) {}

  void known(const Addr& a, int version, uint16_t size = 9000) {
    hosts.set({{version == 4 ? caravan::Family::kIpv4 : caravan::Family::kIpv6, a},
               size,
               std::chrono::hours(1)},
              now);
  }
  // One burst, up to 32 frames, and its end. What isn't taken is kept in `left`.
  void give(const std::vector<Frame>& frames) {
    for (const Frame& f : frames) {
      pxio::PktPtr m = to_mbuf(f, pools().buffers());
      REQUIRE(m);
      const pxio::PacketView v = pxio::parse(*m, pxio::Link::kEthernet);
      if (bundler.add(m.get(), v, now)) {
        (void)m.release();
      } else {
        left.push_back(to_bytes(*m));
      }
    }
    bundler.end_burst(now);
    out_tx.flush();
  }
  void advance(pxio::Nanos by) {
    now += by;
    out_port.now = now;
    bundler.flush_expired(now);
    out_tx.flush();
  }
  std::vector<Bytes> out() {
    out_tx.flush();
    std::vector<Bytes> r;
    for (Decoded& d : out_port.take()) r.push_back(d.frame);
    return r;
  }
  // The frames that a caravan comes apart into.
  std::vector<Bytes> apart(const Frame& f) {
    pxio::PktPtr m = to_mbuf(f, pools().buffers());
    const pxio::PacketView v = pxio::parse(*m, pxio::Link::kEthernet);
    REQUIRE(v.kind == pxio::Kind::kUdp);
    caravan::Unbundler::Out made;
    const uint16_t n = unbundler.take(std::move(m), v, made);
    std::vector<Bytes> r;
    for (uint16_t i = 0; i < n; ++i) {
      most_buffers = std::max<unsigned>(most_buffers, made[i]->nb_segs);
      r.push_back(to_bytes(*made[i]));
      pxio::PktPtr(made[i]).reset();
    }
    return r;
  }

  pxio::Nanos now = std::chrono::seconds(1);
  caravan::HostTable hosts;
  CollectPort out_port;
  pxio::TxBuffer out_tx;
  std::array<uint64_t, 12> hold{};
  caravan::Counters count;
  caravan::Bundler bundler;
  caravan::Unbundler unbundler;
  std::vector<Bytes> left;
  unsigned most_buffers = 0;
};

inline bool is_caravan(const Bytes& frame) {
  const Decoded d = decode(frame);
  return d.proto == 17 && d.l4.size() >= 16 && (d.l4[2] << 8 | d.l4[3]) == caravan::kDefaultPort;
}

}  // namespace test
