// SPDX-License-Identifier: BSD-3-Clause
#include "bench/nic/cut.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace softnic {

using namespace pxio;

uint32_t cut(Frame packet, uint16_t segsz, const std::function<void(Frame)>& out) {
  const auto t = parse_tcp(packet);
  if (!t || segsz == 0 || t->payload_len == 0) return 0;
  std::array<uint8_t, kLargestFrame> piece;
  const size_t headers = t->header_len();
  const uint32_t n = (t->payload_len + segsz - 1) / segsz;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t from = i * segsz, len = std::min<uint32_t>(segsz, t->payload_len - from);
    const MutableFrame frame(piece.data(), headers + len);
    std::memcpy(frame.data(), packet.data(), headers);
    std::memcpy(frame.data() + headers, packet.data() + headers + from, len);
    uint16_t flags = t->flags;
    if (i + 1 != n) flags &= static_cast<uint16_t>(~(kFin | kPsh));
    if (i != 0) flags &= static_cast<uint16_t>(~kCwr);
    auto& tcp = at<TcpHeader>(frame, t->l4_off());
    tcp.seq = be32(t->seq + from);
    tcp.off_flags = be16(static_cast<uint16_t>((tcp.off_flags.host() & 0xf000) | flags));
    if (t->version == 4) {
      auto& ip = at<Ipv4Header>(frame, t->l2_len);
      ip.id = be16(static_cast<uint16_t>(ip.id.host() + i));
    }
    set_lengths_and_checksums(frame, *t, len);
    out(frame);
  }
  return n;
}

}  // namespace softnic
