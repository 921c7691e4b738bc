// SPDX-License-Identifier: BSD-3-Clause
// The wire of the NIC as a TAP device, so that a Linux host is at its other end: what the host
// sends comes with a virtio-net header, which says what the host left undone. One thread.
#pragma once
#include <cstdint>
#include <string>

#include "bench/nic/frame.h"

namespace softnic {

struct TapOptions {
  std::string name;   // of the interface that is made
  std::string netns;  // name of its network namespace (`ip netns`); empty: this process's
  uint16_t mtu = 1500;
  bool offloads = false;  // the host may leave TCP uncut and checksums unfinished
};

class Tap {
 public:
  // Made and up when this returns. Throws std::runtime_error with one line that says what is wrong.
  explicit Tap(const TapOptions& options);
  ~Tap();  // the interface goes away
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  struct Received {
    MutableFrame frame;  // empty: nothing was there
    uint16_t segsz =
        0;  // to be cut into segments of that payload; 0: a frame of the wire, complete
  };
  // Valid until the next call.
  Received receive();
  bool send(Frame frame);
  int fd() const { return fd_; }

 private:
  int fd_;
  std::string name_;
  uint8_t buffer_[kLargestFrame];
};

}  // namespace softnic
