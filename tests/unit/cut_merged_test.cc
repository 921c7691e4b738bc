// SPDX-License-Identifier: BSD-3-Clause
// What a port merged inside tunnels is cut into the very packets that it was merged from.
#include "pxio/dp/cut_merged.h"

#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <random>

#include "tests/support/builder.h"
#include "tests/support/eal.h"

using namespace test;
using pxio::PktPtr;

namespace {

uint64_t sum_of(const Bytes& b, size_t from = 0) {
  uint64_t sum = 0;
  for (size_t i = from; i < b.size(); ++i) sum += (i - from) % 2 == 0 ? b[i] << 8 : b[i];
  return sum;
}
uint16_t folded(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}
void put16(Bytes& b, size_t at, unsigned v) {
  b[at] = static_cast<uint8_t>(v >> 8);
  b[at + 1] = static_cast<uint8_t>(v);
}
Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes ip_of(const Frame& f) { return {f.bytes.begin() + 14, f.bytes.end()}; }
Bytes ethernet(uint16_t type) {
  return {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, static_cast<uint8_t>(type >> 8), static_cast<uint8_t>(type)};
}
uint16_t type_of(const Bytes& ip) { return ip[0] >> 4 == 4 ? 0x0800 : 0x86dd; }

Bytes outer4(uint8_t proto, unsigned id, const Bytes& inner) {
  Bytes h{0x45, 7, 0, 0, 0, 0, 0x40, 0, 63, proto, 0, 0, 192, 0, 2, 1, 192, 0, 2, 9};
  put16(h, 2, static_cast<unsigned>(h.size() + inner.size()));
  put16(h, 4, id & 0xffff);
  put16(h, 10, folded(sum_of(h)));
  return h + inner;
}
Bytes outer6(uint8_t next, const Bytes& inner) {
  Bytes h{0x60, 0x10, 0, 5, 0, 0, next, 62};
  put16(h, 4, static_cast<unsigned>(inner.size()));
  for (uint8_t i = 0; i < 32; ++i) h.push_back(i);
  return h + inner;
}
Bytes gre(unsigned flags, uint16_t type, const Bytes& inner) {
  Bytes h(4);
  put16(h, 0, flags);
  put16(h, 2, type);
  if ((flags & 0x8000) != 0) h = h + Bytes(4);
  if ((flags & 0x2000) != 0) h = h + Bytes{0, 0, 1, 2};
  Bytes all = h + inner;
  if ((flags & 0x8000) != 0) put16(all, 4, folded(sum_of(all)));
  return all;
}
// In IPv4 from 192.0.2.1 to 192.0.2.9.
Bytes udp4(uint16_t port, bool checksum, unsigned id, const Bytes& inner) {
  Bytes u(8);
  put16(u, 0, 50123);
  put16(u, 2, port);
  put16(u, 4, static_cast<unsigned>(8 + inner.size()));
  u = u + inner;
  const Bytes pseudo{192, 0, 2, 1, 192, 0, 2, 9, 0, 17, u[4], u[5]};
  if (checksum) put16(u, 6, folded(sum_of(pseudo) + sum_of(u)));
  return outer4(17, id, u);
}

using Tunnel = std::function<Bytes(const Bytes& ip, unsigned k)>;
const std::vector<std::pair<const char*, Tunnel>> kTunnels = {
    {"IP in IPv4", [](const Bytes& ip, unsigned k) {
       return ethernet(0x0800) + outer4(type_of(ip) == 0x0800 ? 4 : 41, 0xfffe + k, ip);
     }},
    {"IP in IPv6", [](const Bytes& ip, unsigned) {
       return ethernet(0x86dd) + outer6(type_of(ip) == 0x0800 ? 4 : 41, ip);
     }},
    {"GRE", [](const Bytes& ip, unsigned k) {
       return ethernet(0x0800) + outer4(47, k, gre(0, type_of(ip), ip));
     }},
    {"GRE with key and checksum", [](const Bytes& ip, unsigned) {
       return ethernet(0x86dd) + outer6(47, gre(0xa000, type_of(ip), ip));
     }},
    {"Ethernet in GRE", [](const Bytes& ip, unsigned k) {
       return ethernet(0x0800) + outer4(47, k, gre(0x2000, 0x6558, ethernet(type_of(ip)) + ip));
     }},
    {"VXLAN", [](const Bytes& ip, unsigned k) {
       return ethernet(0x0800) + udp4(4789, false, k, Bytes{8, 0, 0, 0, 0, 0, 9, 0} + ethernet(type_of(ip)) + ip);
     }},
    {"VXLAN with checksum", [](const Bytes& ip, unsigned k) {
       return ethernet(0x0800) + udp4(4789, true, k, Bytes{8, 0, 0, 0, 0, 0, 9, 0} + ethernet(type_of(ip)) + ip);
     }},
    {"Geneve with an option", [](const Bytes& ip, unsigned k) {
       return ethernet(0x0800) + udp4(6081, true, k, Bytes{1, 0, 0x65, 0x58, 0, 0, 9, 0, 1, 2, 3, 0} + ethernet(type_of(ip)) + ip);
     }},
    {"two tags, IP in IP in IP", [](const Bytes& ip, unsigned k) {
       Bytes e = ethernet(0x88a8);
       e = e + Bytes{0, 7, 0x81, 0, 0, 8, 0x08, 0};
       return e + outer4(4, k, outer4(type_of(ip) == 0x0800 ? 4 : 41, 5 + k, ip));
     }},
    {"none, behind IPv6 extension headers", [](const Bytes& ip, unsigned) {
       if (type_of(ip) == 0x0800) return ethernet(0x0800) + ip;
       Bytes with(ip.begin(), ip.begin() + 40);
       with[6] = 60;
       const uint8_t l4 = ip[6];
       put16(with, 4, static_cast<unsigned>(ip.size() - 40 + 16));
       with = with + Bytes{43, 0, 1, 4, 0, 0, 0, 0, l4, 0, 4, 0, 0, 0, 0, 0};
       return ethernet(0x86dd) + with + Bytes(ip.begin() + 40, ip.end());
     }},
};

}  // namespace

TEST_CASE("Cut: what was merged in a tunnel leaves as the packets that came", "[lro]") {
  NoLeak guard;
  const int version = GENERATE(4, 6);
  const bool datagrams = GENERATE(false, true);
  for (const auto& [name, tunnel] : kTunnels) {
    for (const size_t last : {1u, 777u, 1200u}) {
      INFO(name << ", IPv" << version << (datagrams ? ", UDP" : ", TCP") << ", last " << last);
      constexpr size_t kSize = 1200;
      const unsigned n = 12;
      std::vector<Bytes> packets;
      Bytes merged, payload;
      for (unsigned k = 0; k < n; ++k) {
        Tcp t = version == 4 ? tcp4() : tcp6();
        t.seq(static_cast<uint32_t>(0xfffff000u + k * kSize)).ts(5, 6).id(static_cast<uint16_t>(0xfff8 + k));
        Bytes data(k + 1 < n ? kSize : last);
        for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7 + k);
        t.bytes(data).flags(static_cast<uint16_t>(ACK | (k == 0 ? CWR : 0) | (k + 1 == n ? PSH : 0)));
        packets.push_back(tunnel(ip_of(datagrams ? udp(t.lower, 1, 2, data) : t.build()), k));
        payload = payload + data;
      }
      const size_t headers = packets[0].size() - kSize, l4_at = headers - (datagrams ? 8 : 32);
      merged.assign(packets[0].begin(), packets[0].begin() + static_cast<ptrdiff_t>(headers));
      if (!datagrams) merged[l4_at + 13] |= 8;  // PSH of the last
      merged = merged + payload;
      PktPtr m = to_mbuf({merged, {500, 1900, 9000}}, pools().buffers());
      std::array<rte_mbuf*, 64> out;
      CHECK(pxio::cut_merged(*m, static_cast<uint32_t>(l4_at), kSize, pools().buffers(), out.data(), n - 1) == 0);
      const uint16_t got = pxio::cut_merged(*m, static_cast<uint32_t>(l4_at), kSize, pools().buffers(), out.data(), 64);
      REQUIRE(got == n);
      for (unsigned k = 0; k < n; ++k) {
        const PktPtr p(out[k]);
        CHECK(to_bytes(*p) == packets[k]);
      }
    }
  }
}

TEST_CASE("Cut: whatever stands in the headers, nothing is read or written beside them", "[lro]") {
  NoLeak guard;
  std::mt19937 rnd(7);
  unsigned cut = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto& tunnel = kTunnels[rnd() % kTunnels.size()].second;
    const Tcp t = (rnd() % 2 != 0 ? tcp4() : tcp6()).data(3000);
    const bool datagrams = rnd() % 3 == 0;
    Bytes b = tunnel(ip_of(datagrams ? udp(t.lower, 1, 2, 3000) : t.build()), 0);
    const size_t l4_at = b.size() - (datagrams ? 3008 : 3020);
    for (unsigned k = rnd() % 4; k != 0; --k) b[rnd() % (l4_at + 20)] = static_cast<uint8_t>(rnd());
    if (rnd() % 4 == 0) b.resize(1 + rnd() % b.size());
    const PktPtr m = to_mbuf({b, {}}, pools().buffers());
    std::array<rte_mbuf*, 64> out;
    const auto at = static_cast<uint32_t>(rnd() % 4 == 0 ? rnd() % 300 : l4_at);
    const uint16_t n = pxio::cut_merged(*m, at, static_cast<uint16_t>(rnd() % 4 == 0 ? rnd() : 1000), pools().buffers(),
                                        out.data(), 64);
    cut += n != 0;
    for (uint16_t k = 0; k < n; ++k) PktPtr(out[k]).reset();
  }
  CHECK(cut > 2000);
}
