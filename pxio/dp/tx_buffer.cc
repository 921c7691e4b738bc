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

}  // namespace pxio
