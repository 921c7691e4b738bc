// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/ip_fragment.h"

#include <algorithm>
#include <cstring>

#include "pxio/dp/checksum.h"

namespace pxgw {
namespace {

using namespace pxio;

// Options of the first fragment that later ones bear too (RFC 791, section 3.1: the copied flag), padded
// to a multiple of 4. Returns their length.
unsigned copied_options(const uint8_t* opts, unsigned len, uint8_t* to) {
  unsigned n = 0;
  for (unsigned i = 0; i < len;) {
    const uint8_t kind = opts[i];
    if (kind == 0) break;
    if (kind == 1) {
      ++i;
      continue;
    }
    if (i + 1 >= len || opts[i + 1] < 2 || i + opts[i + 1] > len) break;
    if ((kind & 0x80) != 0) {
      std::memcpy(to + n, opts + i, opts[i + 1]);
      n += opts[i + 1];
    }
    i += opts[i + 1];
  }
  while (n % 4 != 0) to[n++] = 0;
  return n;
}

}  // namespace

uint16_t fragment_ipv4(const rte_mbuf& m, const PacketView& v, uint16_t mtu, rte_mempool* pool,
                       rte_mbuf** out) noexcept {
  const auto& ip = header_at<Ipv4Header>(m, v.l2_len);
  const unsigned first_header = ip.ihl_bytes();
  uint8_t later_opts[40];
  const unsigned later_opts_len =
      copied_options(data(m) + v.l2_len + kIpv4HeaderLen, first_header - kIpv4HeaderLen, later_opts);
  const uint32_t total = v.ip_len - first_header;
  const uint16_t base = ip.frag.host();
  const uint32_t first_off = (base & kIpOffsetMask) * 8u;
  uint16_t n = 0;
  for (uint32_t done = 0; done < total;) {
    const unsigned header = n == 0 ? first_header : kIpv4HeaderLen + later_opts_len;
    if (mtu < header + 8) break;
    const uint32_t left = total - done;
    const uint32_t len = left + header <= mtu ? left : (mtu - header) / 8 * 8;
    rte_mbuf* f = n < kMaxFragments && first_off + done + len <= 65535 ? rte_pktmbuf_alloc(pool) : nullptr;
    if (f == nullptr || rte_pktmbuf_tailroom(f) < v.l2_len + header + len) {
      if (f != nullptr) rte_pktmbuf_free(f);
      break;
    }
    out[n] = f;
    f->port = m.port;
    uint8_t* p = data(*f);
    std::memcpy(p, data(m), v.l2_len + kIpv4HeaderLen);
    const uint8_t* opts = n == 0 ? data(m) + v.l2_len + kIpv4HeaderLen : later_opts;
    std::memcpy(p + v.l2_len + kIpv4HeaderLen, opts, header - kIpv4HeaderLen);
    uint8_t* body = p + v.l2_len + header;
    const void* src = rte_pktmbuf_read(&m, v.l2_len + first_header + done, len, body);
    if (src != body) std::memcpy(body, src, len);
    f->data_len = static_cast<uint16_t>(v.l2_len + header + len);
    f->pkt_len = f->data_len;
    auto& h = header_at<Ipv4Header>(*f, v.l2_len);
    const bool more = done + len < total || (base & kIpMf) != 0;
    h.version_ihl = static_cast<uint8_t>(0x40 | header / 4);
    h.total_len = be16(static_cast<uint16_t>(header + len));
    h.frag = be16(static_cast<uint16_t>((base & kIpReserved) | (more ? kIpMf : 0) | (first_off + done) / 8));
    set_ipv4_checksum(h);
    ++n;
    done += len;
    if (done == total) return n;
  }
  rte_pktmbuf_free_bulk(out, n);
  return 0;
}

}  // namespace pxgw
