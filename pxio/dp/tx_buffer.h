// SPDX-License-Identifier: BSD-3-Clause
// Packets on their way to one port's queue, in the order in which they leave. What the port can't take
// is dropped here, in this one place, and counted. Worker thread.
#pragma once
#include <array>
#include <cstdint>

#include "pxio/dp/pkt.h"
#include "pxio/dp/port.h"

namespace pxio {

// Upper bounds of the bins of a size histogram, in bytes of IP packet; one more bin is open.
inline constexpr std::array<uint32_t, 9> kSizeBounds = {64, 128, 256, 576, 1280, 1500, 4000, 8000, 9000};
using SizeHistogram = std::array<uint64_t, kSizeBounds.size() + 1>;
inline constexpr auto kSizeBins = [] {  // by words of four bytes: every bound is a multiple of that
  std::array<uint8_t, kSizeBounds.back() / 4 + 1> bins{};
  for (size_t i = 0; i < bins.size(); ++i)
    for (uint32_t bound : kSizeBounds) bins[i] = static_cast<uint8_t>(bins[i] + (4 * i > bound));
  return bins;
}();
inline size_t size_bin(uint32_t ip_len) {
  return ip_len <= kSizeBounds.back() ? kSizeBins[(ip_len + 3) / 4] : kSizeBounds.size();
}

class TxBuffer {
 public:
  TxBuffer(Port& port, uint16_t queue) noexcept
      : port_(&port), queue_(queue), segmenting_(port.can_segment()) {}
  TxBuffer(const TxBuffer&) = delete;
  TxBuffer& operator=(const TxBuffer&) = delete;
  ~TxBuffer() { flush(); }

  void push(PktPtr p) noexcept {
    ++pushed_pkts_;
    pushed_bytes_ += p->pkt_len;
    ++sizes_[size_bin(p->pkt_len - l2_len_)];
    append(std::move(p));
  }
  // A packet that leave_as_segments() has marked, of `n` segments.
  void push_segments(PktPtr p, uint32_t n) noexcept {
    const uint32_t headers = marked_headers(*p), size = p->tso_segsz;
    pushed_pkts_ += n;
    pushed_bytes_ += p->pkt_len + uint64_t{n - 1} * headers;
    sizes_[size_bin(headers + size - l2_len_)] += n - 1;
    ++sizes_[size_bin(p->pkt_len - (n - 1) * size - l2_len_)];
    append(std::move(p));
  }
  void flush() noexcept;

  // Bytes of a frame that aren't the IP packet's, for the histogram.
  void set_l2_len(uint16_t len) { l2_len_ = len; }
  // What the port can cut by itself.
  const Segmenting& segmenting() const { return segmenting_; }
  // All that was pushed so far, the dropped ones among them; packets as they are on the wire.
  uint64_t pushed_pkts() const { return pushed_pkts_; }
  uint64_t pushed_bytes() const { return pushed_bytes_; }
  const SizeHistogram& sizes() const { return sizes_; }
  uint64_t dropped_full() const { return dropped_full_; }

 private:
  static constexpr size_t kCapacity = 64;
  // A full transmit ring drains within microseconds: worth some retries before packets are lost.
  static constexpr int kRetries = 64;
  void append(PktPtr p) noexcept {
    pkts_[n_++] = p.release();
    if (n_ == pkts_.size()) flush();
  }

  Port* port_;
  uint16_t queue_;
  Segmenting segmenting_;
  uint16_t n_ = 0;
  uint16_t l2_len_ = 14;
  uint64_t pushed_pkts_ = 0, pushed_bytes_ = 0, dropped_full_ = 0;
  SizeHistogram sizes_{};
  std::array<rte_mbuf*, kCapacity> pkts_;
};

}  // namespace pxio
