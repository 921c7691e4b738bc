// SPDX-License-Identifier: BSD-3-Clause
// The NIC's end of the cable to its driver: DPDK's net_vhost, which listens on a socket for one
// net_virtio_user. Drivers may come, go and come again. Opened on the main thread, used by one
// thread.
#pragma once
#include <rte_mbuf.h>

#include <cstdint>
#include <string>

#include "pxio/dp/units.h"

namespace softnic {

class VhostPort {
 public:
  // Listens when this returns. `name` begins with net_vhost and is unique in the process. Buffers
  // of what the driver sends come from `pool`. Throws std::runtime_error with one line that says
  // what is wrong.
  VhostPort(const std::string& name, const std::string& socket, uint16_t queues, rte_mempool* pool);
  ~VhostPort();
  VhostPort(const VhostPort&) = delete;
  VhostPort& operator=(const VhostPort&) = delete;

  // Looks, about once a millisecond, whether there is a driver and what it has enabled.
  void refresh(pxio::Nanos now);
  // Queues of the driver that can be used; 0: no driver.
  uint16_t queues() const { return queues_; }
  bool lro() const { return lro_; }

  // What the driver sent, owned by the caller: RTE_MBUF_F_RX_LRO and tso_segsz where it is to be
  // cut, RTE_MBUF_F_RX_L4_CKSUM_NONE where the checksum is to be completed.
  uint16_t receive(uint16_t queue, rte_mbuf** pkts, uint16_t n);
  // Hands packets to the driver; owns those that it took, as many as are returned.
  uint16_t send(uint16_t queue, rte_mbuf** pkts, uint16_t n);

 private:
  std::string socket_;
  uint16_t id_ = 0, most_queues_, queues_ = 0;
  bool lro_ = false;
  pxio::Nanos looked_{0};
};

}  // namespace softnic
