// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/core/regroup.h"

#include <algorithm>

#include "pxio/dp/checksum.h"

namespace caravan {
namespace {

using pxio::Ipv4Header;
using pxio::Ipv6Header;
using pxio::UdpHeader;

size_t addresses_at(Family f) { return f == Family::kIpv4 ? 12 : 8; }
size_t address_len(Family f) { return f == Family::kIpv4 ? 4 : 16; }

void write_headers(const Regroup::From& from, uint32_t mark, uint16_t udp_len, uint8_t* out) {
  if (from.src.family == Family::kIpv4) {
    Ipv4Header ip{};
    ip.version_ihl = 0x45;
    ip.tos = from.tos;
    ip.total_len = be16(static_cast<uint16_t>(sizeof ip + udp_len));
    ip.id = be16(static_cast<uint16_t>(mark));
    ip.frag = be16(pxio::kIpDf);
    ip.ttl = from.ttl;
    ip.proto = pxio::kProtoUdp;
    std::memcpy(&ip.src, from.src.bytes.data(), 4);
    std::memcpy(&ip.dst, from.dst.bytes.data(), 4);
    pxio::set_ipv4_checksum(ip);
    std::memcpy(out, &ip, sizeof ip);
  } else {
    Ipv6Header ip{};
    ip.version_class_flow = be32(6u << 28 | uint32_t{from.tos} << 20 | mark);
    ip.payload_len = be16(udp_len);
    ip.next = pxio::kProtoUdp;
    ip.hop_limit = from.ttl;
    std::memcpy(ip.src, from.src.bytes.data(), 16);
    std::memcpy(ip.dst, from.dst.bytes.data(), 16);
    std::memcpy(out, &ip, sizeof ip);
  }
}

}  // namespace

bool Regroup::joins(const From& from, const Datagram& d) const {
  if (group_.payloads.empty() || closed_ || !several_ || !group_.proved) return false;
  const size_t n = d.udp.size() - kUdpBytes;
  if (n == 0 || group_.size == 0 || n > group_.size) return false;
  if (group_.payloads.size() == kMostSegments || group_.bytes + n > kMostGroupBytes) return false;
  if (from.src != from_.src || from.dst != from_.dst || from.tos != from_.tos ||
      from.ttl != from_.ttl)
    return false;
  return std::memcmp(d.udp.data(), &group_.headers[ip_bytes(from.src.family)], 4) == 0;  // ports
}

void Regroup::add(const From& from, const Datagram& d) {
  const auto udp = pxio::load<UdpHeader>(d.udp.data());
  const auto length = static_cast<uint16_t>(d.udp.size());
  // Groups have no checksums of their own, so each datagram's is proved here; what fails goes
  // alone, and the kernel counts it. One without a checksum would get one.
  const bool proved =
      udp.checksum != 0 &&
      pxio::fold(pseudo_sum(from.src.family, from.src.bytes.data(), from.dst.bytes.data(), length) +
                 pxio::sum_bytes(d.udp.data(), length)) == 0xffff;
  if (!proved || !joins(from, d)) {
    flush();
    start(from, d, proved);
    return;
  }
  const Bytes payload = d.udp.subspan(kUdpBytes);
  closed_ = payload.size() < group_.size;
  group_.payloads.push_back(payload);
  group_.bytes += payload.size();
}

void Regroup::start(const From& from, const Datagram& d, bool proved) {
  from_ = from;
  closed_ = false;
  const size_t ip_len = ip_bytes(from.src.family);
  write_headers(from, d.mark, static_cast<uint16_t>(d.udp.size()), group_.headers.data());
  std::memcpy(&group_.headers[ip_len], d.udp.data(), kUdpBytes);
  group_.header_bytes = ip_len + kUdpBytes;
  group_.size = group_.bytes = d.udp.size() - kUdpBytes;
  group_.proved = proved;
  group_.payloads.push_back(d.udp.subspan(kUdpBytes));
}

void Regroup::flush() {
  if (group_.payloads.empty()) return;
  if (group_.payloads.size() > 1) {
    const auto udp_len = static_cast<uint16_t>(kUdpBytes + group_.bytes);
    uint8_t* p = group_.headers.data();
    const Family family = from_.src.family;
    const size_t ip_len = ip_bytes(family);
    if (family == Family::kIpv4) {
      auto& ip = *reinterpret_cast<Ipv4Header*>(p);
      ip.total_len = be16(static_cast<uint16_t>(ip_len + udp_len));
      pxio::set_ipv4_checksum(ip);
    } else {
      reinterpret_cast<Ipv6Header*>(p)->payload_len = be16(udp_len);
    }
    // As for a checksum that a NIC is to make: the pseudo-header's sum alone.
    auto& udp = *reinterpret_cast<UdpHeader*>(p + ip_len);
    udp.len = be16(udp_len);
    udp.checksum = be16::from_raw(
        pxio::fold(pseudo_sum(family, from_.src.bytes.data(), from_.dst.bytes.data(), udp_len)));
  }
  send_(group_);
  group_.payloads.clear();
}

void set_udp_checksum(MutableBytes packet, Family family) {
  const size_t ip_len = ip_bytes(family);
  auto& udp = *reinterpret_cast<UdpHeader*>(&packet[ip_len]);
  const auto length = static_cast<uint16_t>(packet.size() - ip_len);
  udp.checksum = be16(0);
  const uint8_t* src = &packet[addresses_at(family)];
  const auto sum = static_cast<uint16_t>(~pxio::fold(
      pseudo_sum(family, src, src + address_len(family), length) + pxio::sum_bytes(&udp, length)));
  udp.checksum = be16::from_raw(sum != 0 ? sum : uint16_t{0xffff});
}

bool cut_datagrams(Bytes packet, size_t payload, std::vector<uint8_t>& out,
                   std::vector<size_t>& lengths) {
  if (packet.size() < ip_bytes(Family::kIpv4) || payload == 0) return false;
  const Family family = packet[0] >> 4 == 6 ? Family::kIpv6 : Family::kIpv4;
  const size_t headers = ip_bytes(family) + kUdpBytes;
  if (packet.size() < headers || (family == Family::kIpv4 && packet[0] != 0x45)) return false;
  if (packet[family == Family::kIpv4 ? 9 : 6] != pxio::kProtoUdp) return false;
  auto id = family == Family::kIpv4 ? pxio::load<be16>(&packet[4]).host() : uint16_t{0};
  for (size_t at = headers; at < packet.size(); at += payload, ++id) {
    const size_t n = std::min(payload, packet.size() - at), from = out.size();
    out.insert(out.end(), packet.begin(), packet.begin() + static_cast<ptrdiff_t>(headers));
    out.insert(out.end(), packet.begin() + static_cast<ptrdiff_t>(at),
               packet.begin() + static_cast<ptrdiff_t>(at + n));
    uint8_t* p = &out[from];
    const auto udp_len = static_cast<uint16_t>(kUdpBytes + n);
    reinterpret_cast<UdpHeader*>(p + ip_bytes(family))->len = be16(udp_len);
    if (family == Family::kIpv4) {
      auto& ip = *reinterpret_cast<Ipv4Header*>(p);
      ip.total_len = be16(static_cast<uint16_t>(headers + n));
      ip.id = be16(id);
      pxio::set_ipv4_checksum(ip);
    } else {
      reinterpret_cast<Ipv6Header*>(p)->payload_len = be16(udp_len);
    }
    set_udp_checksum({p, headers + n}, family);
    lengths.push_back(headers + n);
  }
  return true;
}

}  // namespace caravan
