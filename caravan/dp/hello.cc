// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/dp/hello.h"

#include <algorithm>

#include "caravan/dp/pair.h"
#include "pxio/dp/checksum.h"

namespace caravan {

using pxio::data;
using pxio::PacketView;

bool answer_hello(rte_mbuf& m, const PacketView& v, Registrar& registrar,
                  pxio::Nanos now) noexcept {
  const bool v6 = v.version == 6;
  const size_t ip_len = ip_bytes(v6 ? Family::kIpv6 : Family::kIpv4);
  const size_t whole = v.l2_len + ip_len + kUdpBytes + kHelloBytes;
  if (v.why != pxio::Opaque::kNone || v.l3_len != ip_len || v.ip_len != whole - v.l2_len)
    return false;
  if (!pxio::writable(m) || !pxio::pull(m, static_cast<uint16_t>(whole))) return false;
  uint8_t* p = data(m);
  uint8_t* ip = p + v.l2_len;
  auto& udp = *reinterpret_cast<pxio::UdpHeader*>(ip + ip_len);
  uint8_t* payload = ip + ip_len + kUdpBytes;
  if (udp.len.host() != kUdpBytes + kHelloBytes || !unicast(ip, v6)) return false;
  if ((m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD) return false;
  const std::span<uint8_t, kHelloBytes> message(payload, kHelloBytes);
  if (!registrar.answer(source_of(ip, v6), message, now, message)) return false;
  pxio::trim_to(m, static_cast<uint32_t>(whole));
  if (v.l2_len != 0) std::swap_ranges(p, p + 6, p + 6);
  const size_t address = v6 ? 16 : 4;
  uint8_t* src = ip + (v6 ? 8 : 12);
  std::swap_ranges(src, src + address, src + address);
  std::swap(udp.src_port, udp.dst_port);
  constexpr uint8_t kTtl = 64;
  if (v6) {
    ip[7] = kTtl;
  } else {
    auto& v4 = *reinterpret_cast<pxio::Ipv4Header*>(ip);
    v4.ttl = kTtl;
    pxio::set_ipv4_checksum(v4);
  }
  udp.checksum = be16(0);
  const uint64_t sum =
      pseudo_sum(v6 ? Family::kIpv6 : Family::kIpv4, src, src + address, udp.len.host()) +
      pxio::sum_bytes(&udp, kUdpBytes + kHelloBytes);
  const auto checksum = static_cast<uint16_t>(~pxio::fold(sum));
  udp.checksum = be16::from_raw(checksum != 0 ? checksum : uint16_t{0xffff});
  return true;
}

}  // namespace caravan
