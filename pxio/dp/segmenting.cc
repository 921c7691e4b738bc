// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/segmenting.h"

#include "pxio/dp/pkt.h"

namespace pxio {
namespace {

// Whether no segment touches more than `most` buffers, the header's counted with each.
bool spread_ok(const rte_mbuf& m, uint32_t headers, uint32_t size, uint16_t most) noexcept {
  if (m.nb_segs < most) return true;
  uint32_t left = size;
  uint32_t touched = 1;
  uint32_t skip = headers;
  for (const rte_mbuf* b = &m; b != nullptr; b = b->next, skip = 0) {
    uint32_t len = b->data_len - skip;
    if (len == 0) continue;
    if (++touched > most) return false;
    if (len < left) {
      left -= len;
      continue;
    }
    len = (len - left) % size;
    left = size - len;
    touched = len != 0 ? 2 : 1;
  }
  return true;
}

}  // namespace

bool can_cut(const Segmenting& port, const rte_mbuf& m, const PacketView& v, uint32_t size,
             CwrRule cwr) noexcept {
  if (!port.able || v.kind != Kind::kTcp) return false;
  if (size < port.min_size || size > port.max_size || v.ip_len > port.max_bytes) return false;
  if (m.nb_segs > port.max_buffers || m.data_len < v.header_len()) return false;
  if (!port.knows_cwr && (v.flags & (kCwr | kAe)) != 0) return false;
  if ((v.flags & kCwr) != 0 && cwr == CwrRule::kEverySegment) return false;
  return spread_ok(m, v.header_len(), size, port.max_buffers_per_segment);
}

void leave_as_segments(rte_mbuf& m, const PacketView& v, uint16_t size) noexcept {
  trim_to(m, v.l2_len + v.ip_len);
  // The segment size that it came with stands in the same field.
  m.ol_flags &= ~RTE_MBUF_F_RX_LRO;
  m.ol_flags |= RTE_MBUF_F_TX_TCP_SEG | (v.version == 4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
  m.tx_offload = 0;
  m.l2_len = v.l2_len;
  m.l3_len = v.l3_len;
  m.l4_len = v.l4_len;
  m.tso_segsz = size;
}

}  // namespace pxio
