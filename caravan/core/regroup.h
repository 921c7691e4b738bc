// SPDX-License-Identifier: BSD-3-Clause
// Datagrams of caravans as the kernel takes them at once: runs of one flow whose payloads have one
// size (the last may be shorter), which a TUN device takes as one packet with
// VIRTIO_NET_HDR_GSO_UDP_L4. What can't join goes singly; order is kept. One thread.
#pragma once
#include <functional>
#include <vector>

#include "caravan/core/caravan.h"

namespace caravan {

// Below the largest IP packet, and as many segments as kernels since 4.18 take.
inline constexpr size_t kMostSegments = 64, kMostGroupBytes = 65'000;

// What to hand to the kernel: IP header, UDP header and pieces of payload, which lie elsewhere.
struct Group {
  std::array<uint8_t, 40 + kUdpBytes> headers;  // of the whole, with its lengths; see `size`
  size_t header_bytes = 0;
  size_t size = 0;  // payload of each datagram, where there is more than one
  std::vector<Bytes> payloads;
  size_t bytes = 0;  // of all payloads
  bool proved =
      false;  // the checksums hold (one: it stays in place; several: see checksum_partial())
};

class Regroup {
 public:
  using Send = std::function<void(const Group&)>;
  // `several`: whether the kernel takes groups.
  Regroup(bool several, Send send) : several_(several), send_(std::move(send)) {}

  // Of the IP header of a caravan that has been received, all that its datagrams get from it.
  struct From {
    Address src, dst;
    uint8_t tos = 0, ttl = 64;
  };
  // The datagram's bytes stay where they are until flush().
  void add(const From& from, const Datagram& d);
  void flush();

 private:
  void start(const From& from, const Datagram& d, bool proved);
  bool joins(const From& from, const Datagram& d) const;

  bool several_;
  Send send_;
  Group group_;
  From from_;
  bool closed_ = false;  // a shorter one ended the run
};

// One large UDP packet (of a program that uses UDP_SEGMENT) as datagrams: each is an IP packet with
// its checksum, appended to `out`; their lengths to `lengths`. `payload`: of each but the last,
// which may be shorter. False: it isn't such a packet.
bool cut_datagrams(Bytes packet, size_t payload, std::vector<uint8_t>& out,
                   std::vector<size_t>& lengths);

// Makes the UDP checksum of an IP packet right, whatever stands there.
void set_udp_checksum(MutableBytes packet, Family family);

}  // namespace caravan
