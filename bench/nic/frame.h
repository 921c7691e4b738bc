// SPDX-License-Identifier: BSD-3-Clause
// Frames as they stand on a wire: plain contiguous bytes. The emulated NIC reads headers by itself,
// so that it can be held against the gateway. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "pxio/dp/wire.h"

namespace softnic {

using Frame = std::span<const uint8_t>;
using MutableFrame = std::span<uint8_t>;

// What lengths of 16 bits allow: IPv6, with Ethernet header and two tags.
inline constexpr size_t kLargestFrame = 65535 + 40 + 22;

// Ethernet header and VLAN tags, two at most.
struct LinkLayer {
  uint8_t len = 0, tags = 0;
  uint16_t type = 0;
};
// Nothing where the frame ends before.
std::optional<LinkLayer> link_layer(Frame frame);

// Whole TCP without IP options, extension headers or fragmentation.
struct TcpFrame {
  uint8_t version = 0;
  uint8_t tags = 0;
  uint8_t l2_len = 0, l3_len = 0, l4_len = 0;
  uint16_t flags = 0;
  uint32_t seq = 0;
  uint32_t payload_len = 0;  // as IP has it
  uint32_t trailer = 0;      // bytes behind the IP packet

  size_t l4_off() const { return size_t{l2_len} + l3_len; }
  size_t header_len() const { return l4_off() + l4_len; }
  size_t ip_len() const { return size_t{l3_len} + l4_len + payload_len; }
};
std::optional<TcpFrame> parse_tcp(Frame frame);

template <typename T>
const T& at(Frame frame, size_t offset) {
  return *reinterpret_cast<const T*>(frame.data() + offset);
}
template <typename T>
T& at(MutableFrame frame, size_t offset) {
  return *reinterpret_cast<T*>(frame.data() + offset);
}

// Whether the checksums of the IPv4 header and of TCP hold.
bool checksums_ok(Frame frame, const TcpFrame& t);
// Writes lengths for that payload, and both checksums; the frame ends with the payload.
void set_lengths_and_checksums(MutableFrame frame, const TcpFrame& t, uint32_t payload_len);
// Makes the checksum of all bytes from `start` on at `start + offset`, where its sender left the
// sum of the pseudo-header (virtio 1.2, section 5.1.6.2). False where that lies outside.
bool complete_checksum(MutableFrame frame, size_t start, size_t offset);
// The same where only the frame tells which protocol it is. False: neither TCP nor UDP.
bool complete_checksum(MutableFrame frame);

}  // namespace softnic
