// SPDX-License-Identifier: BSD-3-Clause
// A NIC in software whose wire the test holds: net_virtio_user is the NIC, which merges (LRO) and cuts
// (TSO) as far as its driver knows; net_vhost is the wire's end, where merged packets are made up and
// uncut ones come out. One process, no rights, no hugepages.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/frame.h"

namespace test {

class SoftNic {
 public:
  // What came out of the NIC.
  struct Sent {
    Bytes bytes;
    uint64_t ol_flags = 0;
    uint16_t segsz = 0;  // still to be cut, 0: a packet of the wire
  };

  explicit SoftNic(const std::string& options = "tso=1");
  ~SoftNic();  // the port on the NIC has been closed
  SoftNic(const SoftNic&) = delete;
  SoftNic& operator=(const SoftNic&) = delete;

  // For open_ethdev.
  std::string device(const std::string& options = "") const;
  // Arrives whole, merged of segments of `segsz`, with its checksum left unfinished; 0: as it is.
  void deliver(const Frame& frame, uint16_t segsz, uint16_t l2_len = 14);
  // Waits for `want` packets, a second at most.
  std::vector<Sent> sent(size_t want);

 private:
  std::string path_, name_;
  unsigned number_;
  uint16_t id_ = 0;
};

}  // namespace test
