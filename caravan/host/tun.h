// SPDX-License-Identifier: BSD-3-Clause
// A TUN device whose packets bear a virtio-net header, so that several datagrams of one flow pass
// in one call where the kernel can (UDP segmentation offload on TUN: Linux 6.2). The device and all
// routes through it are gone when the process is. One thread.
#pragma once
#include <cstdint>
#include <string>

#include "caravan/core/regroup.h"

namespace caravan {

class Tun {
 public:
  // Makes the device; it isn't up yet. `batches`: several datagrams in one call, where the kernel
  // can. Throws std::runtime_error with one line that says what to do.
  Tun(const std::string& name, bool batches);
  ~Tun();
  Tun(const Tun&) = delete;
  Tun& operator=(const Tun&) = delete;

  int fd() const { return fd_; }
  const std::string& name() const { return name_; }
  bool segments() const { return segments_; }  // several datagrams in one call, both ways

  // Hands the group's datagrams to this host's programs. False: the kernel took it not.
  bool write(const Group& group);

  // A packet that a local program sent: an IP packet in `room`.
  struct Read {
    MutableBytes packet;
    size_t segment =
        0;  // payload of each datagram, where it is several; their checksums are to be made
  };
  // Nothing: none is there. `room`: 64 KiB and kHeader.
  bool read(MutableBytes room, Read& out);

  static constexpr size_t kHeader = 10;  // of virtio-net, in front of each packet

 private:
  int fd_ = -1;
  std::string name_;
  bool segments_ = false;
};

}  // namespace caravan
