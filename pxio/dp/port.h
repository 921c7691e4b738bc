// SPDX-License-Identifier: BSD-3-Clause
// What a worker sees of a port: two calls a burst. Implementations: EthdevPort (DPDK), KernelPort
// (AF_PACKET), and files or vectors in the tools and tests.
#pragma once
#include <rte_mbuf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pxio/dp/segmenting.h"

namespace pxio {

// What a port counts for itself, since it was opened. Written by workers and the kernel or NIC, read by
// the control thread.
struct PortStats {
  uint64_t rx_pkts = 0, rx_bytes = 0;
  uint64_t tx_pkts = 0, tx_bytes = 0;
  uint64_t rx_dropped = 0;    // came in faster than they were fetched
  uint64_t rx_no_buffer = 0;  // no buffer left for them
  uint64_t rx_truncated = 0;  // longer than the buffers
  uint64_t rx_errors = 0;     // couldn't be received for another reason
  uint64_t tx_too_big = 0;    // longer than the interface takes
  uint64_t tx_errors = 0;     // refused for another reason
  uint64_t tx_down = 0;       // the interface was down
  uint64_t tx_resplit = 0;    // were for the NIC to cut, which refused them: cut in software
};

// One ability of a port, or a rule that it was asked to steer by, for the log and the statistics.
struct OffloadState {
  std::string name;  // of abilities as in the configuration: lro, tso, checksum, scatter, multi_segment, rss, flow_rules
  bool used = false;
  std::string how;   // its limits, where a rule leads, or why it isn't used
};

// How far sending on one queue has come; both only rise.
struct TxProgress {
  uint64_t taken = 0;    // packets that tx_burst took
  uint64_t refused = 0;  // calls of which it took none
};

// What has become of a port while it was open.
enum class Health : uint8_t {
  kGood,
  kAway,   // its interface is gone, and may come back
  kReset,  // it carries nothing until restart(): a NIC was reset, an interface came back
  kGone,   // its device is gone: it carries nothing any more
};

// A packet that arrived merged by the NIC or kernel carries RTE_MBUF_F_RX_LRO and, where the port
// knows it, the size of its segments in tso_segsz (0: unknown). TCP and UDP checksums in the packet
// are always complete; RTE_MBUF_F_RX_L4_CKSUM_BAD/GOOD tell what the port knows of them.
// On its way out the mark means the same: a packet that still bears RTE_MBUF_F_RX_LRO and a segment size
// leaves as the segments that it was merged from, UDP always, TCP where it is longer than the MTU.
// One marked by leave_as_segments() leaves as the segments that the mark names, whatever the MTU; only
// ports that say so in can_segment() may be given any.
class Port {
 public:
  virtual ~Port() = default;
  // Up to n packets received on `queue`, owned by the caller from now on.
  virtual uint16_t rx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept = 0;
  // Sends pkts[0..n); takes ownership of the first `return value` of them, whether they were sent or
  // had to be dropped under the port's own counter; the others couldn't be taken now.
  virtual uint16_t tx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept = 0;

  // Buffers that a packet may be chained of without being copied on its way out.
  virtual uint16_t max_tx_segs() const noexcept { return UINT16_MAX; }
  // What may be marked by leave_as_segments() for this port. The same as long as it is open.
  virtual Segmenting can_segment() const noexcept { return {}; }
  // Nothing came for a while: time to give back buffers of packets that have been sent. Worker of `queue`.
  virtual void idle(uint16_t) noexcept {}
  // Readable when a packet is there, for sleeping in ppoll; -1: only polling tells.
  virtual int wait_fd(uint16_t) const noexcept { return -1; }
  // Worker of `queue`, around a sleep on wait_fd: packets that come from arm() on make it readable.
  virtual void arm(uint16_t) noexcept {}
  virtual void disarm(uint16_t) noexcept {}
  // Control thread, one at a time.
  virtual PortStats stats() { return {}; }
  virtual uint16_t queues() const noexcept { return 1; }
  virtual TxProgress tx_progress(uint16_t) const noexcept { return {}; }
  virtual std::string driver() const { return ""; }
  virtual std::vector<OffloadState> offloads() const { return {}; }
  virtual std::vector<OffloadState> flow_rules() const { return {}; }
  virtual Health health() const noexcept { return Health::kGood; }
  // Starts the port anew as it was, with its rules; what waited in it is lost. No worker uses it meanwhile.
  // Throws std::runtime_error with one line.
  virtual void restart() {}
};

}  // namespace pxio
