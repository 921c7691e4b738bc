// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/frame.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace test {

pxio::PktPtr to_mbuf(const Frame& frame, pxio::Buffers buffers) {
  std::vector<uint32_t> ends = frame.cuts;
  ends.push_back(static_cast<uint32_t>(frame.bytes.size()));
  std::sort(ends.begin(), ends.end());
  rte_mbuf* head = nullptr;
  rte_mbuf* last = nullptr;
  uint32_t from = 0;
  for (uint32_t end : ends) {
    end = std::min(end, static_cast<uint32_t>(frame.bytes.size()));
    if (end == from && head != nullptr) continue;
    const uint32_t len = end - from;
    rte_mbuf* m = rte_pktmbuf_alloc(pxio::pool_for(buffers, len));
    if (m == nullptr) {
      rte_pktmbuf_free(head);
      return {};
    }
    if (rte_pktmbuf_tailroom(m) < len) throw std::logic_error("frame too long for one buffer");
    if (len != 0) std::memcpy(rte_pktmbuf_mtod(m, uint8_t*), frame.bytes.data() + from, len);
    m->data_len = static_cast<uint16_t>(len);
    m->pkt_len = len;
    if (head == nullptr) {
      head = m;
    } else {
      last->next = m;
      head->nb_segs++;
      head->pkt_len += len;
    }
    last = m;
    from = end;
  }
  head->ol_flags |= frame.ol_flags;
  head->tso_segsz = frame.segsz;
  return pxio::PktPtr(head);
}

Bytes to_bytes(const rte_mbuf& m) {
  Bytes r;
  unsigned segs = 0;
  for (const rte_mbuf* s = &m; s != nullptr; s = s->next, ++segs) {
    if (s->data_len == 0 && m.pkt_len != 0) throw std::logic_error("an empty buffer in a chain");
    const uint8_t* p = rte_pktmbuf_mtod(s, const uint8_t*);
    r.insert(r.end(), p, p + s->data_len);
  }
  if (segs != m.nb_segs) throw std::logic_error("nb_segs isn't the chain's length");
  if (r.size() != m.pkt_len) throw std::logic_error("pkt_len isn't the sum of the chain");
  return r;
}

Bytes from_hex(const std::string& hex) {
  Bytes r;
  int high = -1;
  for (char c : hex) {
    int v;
    if (c >= '0' && c <= '9') {
      v = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      v = c - 'a' + 10;
    } else {
      continue;
    }
    if (high < 0) {
      high = v;
    } else {
      r.push_back(static_cast<uint8_t>(high << 4 | v));
      high = -1;
    }
  }
  return r;
}

std::string to_hex(const Bytes& bytes, size_t most) {
  static const char* const digits = "0123456789abcdef";
  std::string r;
  for (size_t i = 0; i < std::min(bytes.size(), most); ++i) {
    r += digits[bytes[i] >> 4];
    r += digits[bytes[i] & 15];
  }
  if (bytes.size() > most) r += "... (" + std::to_string(bytes.size()) + " bytes)";
  return r;
}

}  // namespace test
