// SPDX-License-Identifier: BSD-3-Clause
#include "bench/nic/frame.h"

#include <algorithm>

#include "pxio/dp/checksum.h"

namespace softnic {

using namespace pxio;

namespace {

uint64_t pseudo(Frame frame, const TcpFrame& t, uint32_t l4_len) {
  return t.version == 4 ? pseudo_sum(at<Ipv4Header>(frame, t.l2_len), kProtoTcp, l4_len)
                        : pseudo_sum(at<Ipv6Header>(frame, t.l2_len), kProtoTcp, l4_len);
}

uint16_t sum_l4(Frame frame, const TcpFrame& t, uint32_t payload_len) {
  const uint32_t l4_len = t.l4_len + payload_len;
  return fold(pseudo(frame, t, l4_len) + sum_bytes(frame.data() + t.l4_off(), l4_len));
}

struct Ip {
  uint8_t proto = 0, header = 0;
  uint32_t len = 0;  // header and all behind it
};

// Nothing for fragments, options and lengths that don't fit the frame.
std::optional<Ip> parse_ip(Frame frame, const LinkLayer& link) {
  const size_t room = frame.size() - link.len;
  Ip ip;
  if (link.type == kEtherIpv4) {
    if (room < kIpv4HeaderLen) return std::nullopt;
    const auto& h = at<Ipv4Header>(frame, link.len);
    if (h.version_ihl != 0x45 || (h.frag.host() & (kIpMf | kIpOffsetMask)) != 0)
      return std::nullopt;
    ip = {h.proto, kIpv4HeaderLen, h.total_len.host()};
  } else if (link.type == kEtherIpv6) {
    if (room < kIpv6HeaderLen) return std::nullopt;
    const auto& h = at<Ipv6Header>(frame, link.len);
    if (h.version_class_flow.bytes[0] >> 4 != 6) return std::nullopt;
    ip = {h.next, kIpv6HeaderLen, kIpv6HeaderLen + uint32_t{h.payload_len.host()}};
  } else {
    return std::nullopt;
  }
  if (ip.len > room || ip.len < ip.header) return std::nullopt;
  return ip;
}

}  // namespace

std::optional<LinkLayer> link_layer(Frame frame) {
  if (frame.size() < sizeof(EthernetHeader)) return std::nullopt;
  LinkLayer l{sizeof(EthernetHeader), 0, at<be16>(frame, 12).host()};
  while (l.tags < 2 && (l.type == kEtherVlan || l.type == kEtherQinq || l.type == kEtherQinqOld)) {
    if (frame.size() < l.len + sizeof(VlanTag)) return std::nullopt;
    l.type = at<VlanTag>(frame, l.len).type.host();
    l.len = static_cast<uint8_t>(l.len + sizeof(VlanTag));
    ++l.tags;
  }
  return l;
}

std::optional<TcpFrame> parse_tcp(Frame frame) {
  const auto link = link_layer(frame);
  if (!link) return std::nullopt;
  const auto ip = parse_ip(frame, *link);
  if (!ip || ip->proto != kProtoTcp || ip->len < uint32_t{ip->header} + kTcpHeaderLen)
    return std::nullopt;
  const auto& tcp = at<TcpHeader>(frame, size_t{link->len} + ip->header);
  if (tcp.len() < kTcpHeaderLen || ip->header + tcp.len() > ip->len) return std::nullopt;
  TcpFrame t;
  t.version = link->type == kEtherIpv4 ? 4 : 6;
  t.tags = link->tags;
  t.l2_len = link->len;
  t.l3_len = ip->header;
  t.l4_len = static_cast<uint8_t>(tcp.len());
  t.flags = tcp.flags();
  t.seq = tcp.seq.host();
  t.payload_len = ip->len - ip->header - tcp.len();
  t.trailer = static_cast<uint32_t>(frame.size() - link->len - ip->len);
  return t;
}

bool checksums_ok(Frame frame, const TcpFrame& t) {
  if (t.version == 4 && !ipv4_header_ok(at<Ipv4Header>(frame, t.l2_len))) return false;
  return sum_l4(frame, t, t.payload_len) == 0xffff;
}

void set_lengths_and_checksums(MutableFrame frame, const TcpFrame& t, uint32_t payload_len) {
  if (t.version == 4) {
    auto& ip = at<Ipv4Header>(frame, t.l2_len);
    ip.total_len = be16(static_cast<uint16_t>(t.l3_len + t.l4_len + payload_len));
    set_ipv4_checksum(ip);
  } else {
    at<Ipv6Header>(frame, t.l2_len).payload_len =
        be16(static_cast<uint16_t>(t.l4_len + payload_len));
  }
  auto& tcp = at<TcpHeader>(frame, t.l4_off());
  tcp.checksum = be16(0);
  tcp.checksum = be16::from_raw(static_cast<uint16_t>(~sum_l4(frame, t, payload_len)));
}

bool complete_checksum(MutableFrame frame, size_t start, size_t offset) {
  if (start + offset + sizeof(be16) > frame.size()) return false;
  const auto sum = static_cast<uint16_t>(~sum_bytes(frame.data() + start, frame.size() - start));
  // In UDP zero means that there is none (RFC 768); TCP takes either.
  at<be16>(frame, start + offset) = be16::from_raw(sum == 0 ? 0xffff : sum);
  return true;
}

bool complete_checksum(MutableFrame frame) {
  const auto link = link_layer(frame);
  if (!link) return false;
  const auto ip = parse_ip(frame, *link);
  if (!ip || (ip->proto != kProtoTcp && ip->proto != kProtoUdp)) return false;
  const size_t offset =
      ip->proto == kProtoTcp ? offsetof(TcpHeader, checksum) : offsetof(UdpHeader, checksum);
  return complete_checksum(frame.first(link->len + ip->len), size_t{link->len} + ip->header,
                           offset);
}

}  // namespace softnic
