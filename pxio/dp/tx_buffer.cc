// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/tx_buffer.h"

namespace pxio {

void TxBuffer::flush() noexcept {
  uint16_t done = 0;
  for (int tries = 0; done < n_ && tries < kRetries; ++tries) {
    done = static_cast<uint16_t>(
        done + port_->tx_burst(queue_, pkts_.data() + done, static_cast<uint16_t>(n_ - done)));
  }
  for (uint16_t i = done; i < n_; ++i) {
    dropped_full_ += packets_on_wire(*pkts_[i]);
    PktPtr(pkts_[i]).reset();
  }
  n_ = 0;
}

void TxBuffer::count_segments(const rte_mbuf& m) noexcept {
  const uint32_t n = packets_on_wire(m), headers = marked_headers(m);
  const uint32_t last = m.pkt_len - (n - 1) * m.tso_segsz;
  pushed_pkts_ += n;
  pushed_bytes_ += m.pkt_len + uint64_t{n - 1} * headers;
  sizes_[size_bin(headers + m.tso_segsz - l2_len_)] += n - 1;
  ++sizes_[size_bin(last - l2_len_)];
}

}  // namespace pxio
