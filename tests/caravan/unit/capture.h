// SPDX-License-Identifier: BSD-3-Clause
// The test vectors: captures that tests/caravan/vectors.py wrote.
#pragma once
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "caravan/core/caravan.h"

namespace test {

using Packet = std::vector<uint8_t>;

// The IP packets of a capture of Ethernet frames, little-endian.
inline std::vector<Packet> read_vectors(const std::string& name) {
  std::ifstream in("tests/caravan/" + name, std::ios::binary);
  const Packet all{std::istreambuf_iterator<char>(in), {}};
  std::vector<Packet> packets;
  for (size_t at = 24; at + 16 <= all.size();) {
    const auto length = pxio::load<uint32_t>(&all[at + 8]);
    at += 16;
    packets.emplace_back(all.begin() + static_cast<ptrdiff_t>(at + 14),
                         all.begin() + static_cast<ptrdiff_t>(at + length));
    at += length;
  }
  if (packets.empty()) throw std::runtime_error(name + ": no packets");
  return packets;
}

inline caravan::Family family_of(const Packet& p) {
  return p[0] >> 4 == 4 ? caravan::Family::kIpv4 : caravan::Family::kIpv6;
}
inline caravan::Bytes udp_payload(const Packet& p) {
  return caravan::Bytes(p).subspan(caravan::ip_bytes(family_of(p)) + caravan::kUdpBytes);
}
inline bool is_caravan_packet(const Packet& p) {
  const size_t at = caravan::ip_bytes(family_of(p)) + 2;
  return (p[at] << 8 | p[at + 1]) == caravan::kDefaultPort;
}

// The packets that a caravan's packet comes apart into, as a receiver makes them.
inline std::vector<Packet> take_apart(const Packet& p, caravan::Refusal& refusal) {
  using namespace caravan;
  std::vector<Packet> out;
  Records records;
  const Family family = family_of(p);
  refusal = unbundle(udp_payload(p), family, kDefaultPort, records);
  if (refusal != Refusal::kNone) return out;
  UdpPacket outer;
  const int tos = parse_udp(p, outer) ? tos_of(outer.tos, records.ecn) : -1;
  if (tos < 0) {
    refusal = Refusal::kEcn;
    return out;
  }
  for (unsigned i = 0; i < records.count; ++i) {
    Packet d(ip_bytes(family));
    write_ip_header(p.data(), family, records.at[i], static_cast<uint8_t>(tos), d.data());
    const caravan::Bytes udp = datagram_of(udp_payload(p), records.at[i]).udp;
    d.insert(d.end(), udp.begin(), udp.end());
    out.push_back(d);
  }
  return out;
}

}  // namespace test
