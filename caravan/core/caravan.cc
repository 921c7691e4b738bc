// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/core/caravan.h"

#include "pxio/dp/checksum.h"

namespace caravan {
namespace {

using pxio::Ipv4Header;
using pxio::Ipv6Header;
using pxio::UdpHeader;

UdpHeader udp_of(Bytes udp) { return pxio::load<UdpHeader>(udp.data()); }

uint8_t class_of(const Ipv6Header& h) {
  return static_cast<uint8_t>(h.version_class_flow.bytes[0] << 4 |
                              h.version_class_flow.bytes[1] >> 4);
}

const uint8_t* addresses(const UdpPacket& p) { return p.ip + (p.family == Family::kIpv4 ? 12 : 8); }
size_t addresses_len(Family f) { return f == Family::kIpv4 ? 8 : 32; }

// What each part of a caravan adds to its outer checksum, byte-swapped where the part begins at an
// odd offset (RFC 1071, section 2 B).
class OuterSum {
 public:
  void add(uint64_t sum, size_t length) {
    const uint16_t folded = pxio::fold(sum);
    sum_ += odd_ ? pxio::swap_odd(folded) : folded;
    odd_ ^= length % 2 != 0;
  }
  uint64_t get() const { return sum_; }

 private:
  uint64_t sum_ = 0;
  bool odd_ = false;
};

}  // namespace

const char* name_of(Refusal r) {
  constexpr const char* kNames[] = {"none",     "short", "magic",  "version", "type",
                                    "reserved", "count", "length", "record",  "rest",
                                    "nested",   "mark",  "ecn"};
  return kNames[static_cast<size_t>(r)];
}

size_t bundle(std::span<const Datagram> datagrams, Family family, uint8_t ecn, uint16_t port,
              MutableBytes out) {
  if (datagrams.empty() || datagrams.size() > kMaxDatagrams || out.size() < sizeof(Header))
    return 0;
  const size_t mark_len = mark_bytes(family);
  size_t at = sizeof(Header);
  for (const Datagram& d : datagrams) {
    if (d.udp.size() < kUdpBytes || out.size() - at < mark_len + d.udp.size()) return 0;
    const UdpHeader udp = udp_of(d.udp);
    if (udp.len.host() != d.udp.size() || udp.src_port.host() == port ||
        udp.dst_port.host() == port)
      return 0;
    const uint32_t mark = family == Family::kIpv4 ? d.mark : d.mark & kFlowLabelMask;
    for (size_t i = 0; i < mark_len; ++i)
      out[at++] = static_cast<uint8_t>(mark >> 8 * (mark_len - 1 - i));
    std::memcpy(&out[at], d.udp.data(), d.udp.size());
    at += d.udp.size();
  }
  if (at > UINT16_MAX - kUdpBytes) return 0;
  const Header header{.magic = be16(kWireMagic),
                      .version_type = kWireVersion << 4 | static_cast<uint8_t>(Type::kCaravan),
                      .flags = static_cast<uint8_t>(ecn & kEcnMask),
                      .count = static_cast<uint8_t>(datagrams.size()),
                      .zero = 0,
                      .length = be16(static_cast<uint16_t>(at - sizeof(Header)))};
  std::memcpy(out.data(), &header, sizeof header);
  return at;
}

Refusal unbundle(Bytes payload, Family family, uint16_t port, Records& out) {
  if (payload.size() > UINT16_MAX) return Refusal::kLength;
  const auto read = [&](uint32_t offset, uint32_t, uint8_t*) { return payload.data() + offset; };
  return walk(read, static_cast<uint32_t>(payload.size()), family, port, out);
}

bool parse_udp(Bytes packet, UdpPacket& out) {
  if (packet.size() < ip_bytes(Family::kIpv4)) return false;
  const uint8_t version = packet[0] >> 4;
  size_t length = 0;
  if (version == 4) {
    out.family = Family::kIpv4;
    const auto ip = pxio::load<Ipv4Header>(packet.data());
    length = ip.total_len.host();
    if (ip.version_ihl != 0x45 || ip.proto != pxio::kProtoUdp) return false;
    if ((ip.frag.host() & ~pxio::kIpDf) != 0 || !pxio::ipv4_header_ok(ip)) return false;
    out.tos = ip.tos;
    out.datagram.mark = ip.id.host();
  } else if (version == 6 && packet.size() >= ip_bytes(Family::kIpv6)) {
    out.family = Family::kIpv6;
    const auto ip = pxio::load<Ipv6Header>(packet.data());
    length = ip_bytes(Family::kIpv6) + ip.payload_len.host();
    if (ip.next != pxio::kProtoUdp) return false;
    out.tos = class_of(ip);
    out.datagram.mark = ip.version_class_flow.host() & kFlowLabelMask;
  } else {
    return false;
  }
  const size_t ip_len = ip_bytes(out.family);
  if (length > packet.size() || length < ip_len + kUdpBytes) return false;
  out.ip = packet.data();
  out.datagram.udp = packet.subspan(ip_len, length - ip_len);
  const UdpHeader udp = udp_of(out.datagram.udp);
  // A shorter UDP length leaves room for options (RFC 9868) that a caravan has no place for.
  if (udp.len.host() != out.datagram.udp.size()) return false;
  out.src_port = udp.src_port.host();
  out.dst_port = udp.dst_port.host();
  out.checksum = udp.checksum.raw();
  return true;
}

bool checksum_ok(const UdpPacket& p) {
  if (p.checksum == 0) return p.family == Family::kIpv4;
  const uint8_t* src = addresses(p);
  const auto length = static_cast<uint16_t>(p.datagram.udp.size());
  return pxio::fold(pseudo_sum(p.family, src, src + addresses_len(p.family) / 2, length) +
                    pxio::sum_bytes(p.datagram.udp.data(), length)) == 0xffff;
}

bool may_share(const UdpPacket& a, const UdpPacket& b) {
  if (a.family != b.family || a.tos != b.tos) return false;
  if (std::memcmp(addresses(a), addresses(b), addresses_len(a.family)) != 0) return false;
  if (a.family == Family::kIpv6) return a.ip[7] == b.ip[7];
  return a.ip[8] == b.ip[8] && a.ip[6] == b.ip[6];  // DF is the one bit that isn't 0 for certain
}

size_t bundle_packet(std::span<const UdpPacket> packets, uint16_t port, MutableBytes out) {
  if (packets.empty() || packets.size() > kMaxDatagrams) return 0;
  const UdpPacket& first = packets.front();
  const size_t ip_len = ip_bytes(first.family), before = ip_len + kUdpBytes;
  if (out.size() < before) return 0;
  std::array<Datagram, kMaxDatagrams> datagrams;
  for (size_t i = 0; i < packets.size(); ++i) datagrams[i] = packets[i].datagram;
  const size_t n = bundle(std::span(datagrams).first(packets.size()), first.family,
                          first.tos & kEcnMask, port, out.subspan(before));
  if (n == 0) return 0;
  const auto udp_len = static_cast<uint16_t>(kUdpBytes + n);
  UdpHeader udp{be16(source_port(first.family, addresses(first))), be16(port), be16(udp_len), be16(0)};
  std::memcpy(out.data(), first.ip, ip_len);
  if (first.family == Family::kIpv4) {
    auto& ip = *reinterpret_cast<Ipv4Header*>(out.data());
    if (ip_len + udp_len > UINT16_MAX) return 0;
    ip.total_len = be16(static_cast<uint16_t>(ip_len + udp_len));
    pxio::set_ipv4_checksum(ip);
  } else {
    reinterpret_cast<Ipv6Header*>(out.data())->payload_len = be16(udp_len);
    const uint8_t* src = addresses(first);
    OuterSum sum;
    sum.add(pseudo_sum(first.family, src, src + 16, udp_len), 0);
    sum.add(pxio::sum_words(&udp, sizeof udp) + pxio::sum_words(&out[before], sizeof(Header)), 0);
    for (const UdpPacket& p : packets) {
      const auto length = static_cast<uint16_t>(p.datagram.udp.size());
      // A datagram whose checksum holds sums up to the complement of its pseudo-header's sum.
      const uint16_t datagram =
          static_cast<uint16_t>(~pxio::fold(pseudo_sum(p.family, src, src + 16, length)));
      sum.add(uint64_t{be32(p.datagram.mark).raw()} + datagram, length);
    }
    const auto checksum = static_cast<uint16_t>(~pxio::fold(sum.get()));
    udp.checksum = be16::from_raw(checksum != 0 ? checksum : uint16_t{0xffff});
  }
  std::memcpy(&out[ip_len], &udp, sizeof udp);
  return before + n;
}

size_t write_ip_header(const uint8_t* outer, Family family, const Record& r, uint8_t tos,
                       uint8_t* out) {
  if (family == Family::kIpv4) {
    auto ip = pxio::load<Ipv4Header>(outer);
    ip.tos = tos;
    ip.total_len = be16(static_cast<uint16_t>(ip_bytes(family) + r.length));
    ip.id = be16(static_cast<uint16_t>(r.mark));
    pxio::set_ipv4_checksum(ip);
    std::memcpy(out, &ip, sizeof ip);
  } else {
    auto ip = pxio::load<Ipv6Header>(outer);
    ip.version_class_flow = be32(6u << 28 | uint32_t{tos} << 20 | r.mark);
    ip.payload_len = be16(r.length);
    std::memcpy(out, &ip, sizeof ip);
  }
  return ip_bytes(family);
}

}  // namespace caravan
