// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/udp_packet.h"

#include <algorithm>
#include <cstring>

#include "pxio/dp/checksum.h"

namespace pxgw {

using namespace pxio;

namespace {
constexpr uint8_t kHops = 64;  // RFC 1700
}

void write_udp_headers(std::span<uint8_t> frame, std::span<const uint8_t> l2, const UdpEnds& ends,
                       Fragmentable fragmentable, uint16_t id) noexcept {
  std::copy(l2.begin(), l2.end(), frame.begin());
  uint8_t* ip = frame.data() + l2.size();
  const auto ip_len = static_cast<uint16_t>(frame.size() - l2.size());
  const bool v4 = ends.from.version == 4;
  const size_t l3 = v4 ? sizeof(Ipv4Header) : sizeof(Ipv6Header);
  const auto l4_len = static_cast<uint16_t>(ip_len - l3);
  uint64_t sum = 0;
  if (v4) {
    Ipv4Header h{};
    h.version_ihl = 0x45;
    h.total_len = be16(ip_len);
    h.id = be16(id);
    h.frag = be16(fragmentable == Fragmentable::kYes ? uint16_t{0} : kIpDf);
    h.ttl = kHops;
    h.proto = kProtoUdp;
    std::memcpy(&h.src, ends.from.bytes(), 4);
    std::memcpy(&h.dst, ends.to.bytes(), 4);
    set_ipv4_checksum(h);
    sum = pseudo_sum(h, kProtoUdp, l4_len);
    std::memcpy(ip, &h, sizeof h);
  } else {
    Ipv6Header h{};
    h.version_class_flow = be32(6u << 28);
    h.payload_len = be16(l4_len);
    h.next = kProtoUdp;
    h.hop_limit = kHops;
    std::memcpy(h.src, ends.from.bytes(), 16);
    std::memcpy(h.dst, ends.to.bytes(), 16);
    sum = pseudo_sum(h, kProtoUdp, l4_len);
    std::memcpy(ip, &h, sizeof h);
  }
  UdpHeader udp{be16(ends.from_port), be16(ends.to_port), be16(l4_len), be16(0)};
  std::memcpy(ip + l3, &udp, sizeof udp);
  const auto checksum = static_cast<uint16_t>(~fold(sum + sum_bytes(ip + l3, l4_len)));
  udp.checksum = be16::from_raw(checksum != 0 ? checksum : uint16_t{0xffff});  // RFC 768: 0 is none
  std::memcpy(ip + l3, &udp, sizeof udp);
}

}  // namespace pxgw
