// SPDX-License-Identifier: BSD-3-Clause
// The endpoint's sockets: one on the caravan port for caravans and messages, and one that sends
// whole IP packets. Not blocking. One thread.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <vector>

#include "caravan/core/format.h"

namespace caravan {

// A datagram to the caravan port, and what its IP header had.
struct Received {
  Bytes payload;
  Address from, to;
  uint16_t from_port = 0;
  uint8_t tos = 0, ttl = 64;
  bool truncated = false;
};

class PortSocket {
 public:
  // Bound to `port` on all addresses of the family. Packets that it sends bear `mark`. Throws
  // std::runtime_error with one line that says what to do.
  PortSocket(Family family, uint16_t port, uint32_t mark);
  ~PortSocket();
  PortSocket(const PortSocket&) = delete;
  PortSocket& operator=(const PortSocket&) = delete;
  int fd() const { return fd_; }
  bool send(const Address& to, uint16_t port, Bytes payload);
  // What has come, 32 datagrams at most; valid until the next call.
  const std::vector<Received>& receive();

 private:
  static constexpr size_t kBatch = 32, kRoom = 65536, kControl = 256;
  struct Buffers;
  Family family_;
  int fd_;
  std::unique_ptr<Buffers> buffers_;
  std::vector<Received> received_;
};

class PacketSender {
 public:
  PacketSender(Family family, uint32_t mark);
  ~PacketSender();
  PacketSender(const PacketSender&) = delete;
  PacketSender& operator=(const PacketSender&) = delete;
  // Sends IP packets of the family in their order. Returns how many the kernel took; the others are
  // lost.
  size_t send(std::span<const Bytes> packets);

 private:
  Family family_;
  int fd_;
};

}  // namespace caravan
