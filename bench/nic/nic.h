// SPDX-License-Identifier: BSD-3-Clause
// A NIC in software: LRO on the way from the wire to the driver, TSO and checksums on the way back.
// The driver is DPDK's net_virtio_user, in this process or another; the wire is whatever calls
// from_wire() and is called by `to_wire`. One thread.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "bench/nic/counters.h"
#include "bench/nic/frame.h"
#include "bench/nic/lro.h"
#include "bench/nic/vhost_port.h"

namespace softnic {

struct NicOptions {
  LroOptions lro;
  uint16_t mtu = 1500;  // largest IP packet on the wire
};

class Nic {
 public:
  // Sends one frame, which is valid during the call; false: it couldn't be sent, and is counted so.
  using ToWire = std::function<bool(Frame)>;

  Nic(const NicOptions& options, VhostPort& driver, rte_mempool* pool, ToWire to_wire);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  // Whether the driver keeps up. What comes from the wire all the same is kept.
  bool ready() const;
  // A frame of the wire, with its checksum complete.
  void from_wire(Frame frame, pxio::Nanos now);
  // What a host with offloads left uncut: becomes frames of `segsz` bytes of payload first.
  void from_wire_uncut(Frame packet, uint16_t segsz, pxio::Nanos now);
  // Hands on what the driver sent and what waits for it. False: there was nothing to do.
  bool poll(pxio::Nanos now);
  // Whether sessions are under way, which end by time.
  bool holds() const { return lro_.holds(); }
  // Ends all sessions and hands over what the driver takes.
  void drain();
  const Counters& counters() const { return counters_; }

 private:
  void receive(Frame frame, pxio::Nanos now);
  void to_driver(rte_mbuf* m);
  bool deliver();
  void from_driver(const rte_mbuf& m);
  void to_wire(Frame frame);
  bool above_mtu(Frame frame) const;

  const NicOptions options_;
  VhostPort& driver_;
  ToWire to_wire_;
  Counters counters_;
  std::vector<std::vector<rte_mbuf*>> waiting_;  // by queue
  Lro lro_;
  std::vector<uint8_t> scratch_;
};

}  // namespace softnic
