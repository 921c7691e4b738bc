// SPDX-License-Identifier: BSD-3-Clause
// Any Linux network interface as a port: AF_PACKET sockets with virtio-net headers, so that the kernel's
// GRO and GSO packets come and go whole, with their checksum state. One socket a queue; bursts are one
// system call. No shared rings: the kernel hands a transmit ring's slot back while a receiver may still
// read its pages.
#pragma once
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "pxio/dp/buffers.h"
#include "pxio/dp/fd.h"
#include "pxio/dp/port.h"
#include "pxio/dp/units.h"

namespace pxio {

struct KernelPortOptions {
  std::string ifname;
  uint16_t queues = 1;
  uint16_t mtu = 1500;
  Buffers buffers;
  bool lro = true;  // whether the kernel merges what arrives (GRO): set at the interface, put back at the end
  bool tso = true;  // whether the kernel may be given packets to cut
};

// What stands before each packet: struct virtio_net_hdr, whose own header isn't C++. Host byte order.
struct VnetHeader {
  static constexpr uint8_t kNeedsChecksum = 1, kDataValid = 2;  // flags
  static constexpr uint8_t kGsoNone = 0, kGsoTcp4 = 1, kGsoTcp6 = 4, kGsoEcn = 0x80;
  static constexpr uint8_t kGsoUdp = 5;  // datagrams of equal size; from Linux 6.2 on
  uint8_t flags = 0;
  uint8_t gso_type = kGsoNone;
  uint16_t hdr_len = 0;
  uint16_t gso_size = 0;
  uint16_t csum_start = 0;
  uint16_t csum_offset = 0;
};
static_assert(sizeof(VnetHeader) == 10);

class ReceiveMerging;

class KernelPort final : public Port {
 public:
  // Control thread. Throws std::runtime_error: no such interface, no rights, down, MTU too small.
  static std::unique_ptr<KernelPort> open(const KernelPortOptions& options);
  // Gives all its buffers back. No worker uses it any more.
  ~KernelPort() override;
  KernelPort(const KernelPort&) = delete;
  KernelPort& operator=(const KernelPort&) = delete;

  // Buffers of both pools that one queue keeps posted for the kernel to fill.
  static uint32_t small_posted() { return kBurst; }
  static uint32_t large_posted(Buffers buffers);

  uint16_t rx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept override;
  uint16_t tx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept override;
  uint16_t max_tx_segs() const noexcept override { return kTxIovecs - 1; }
  Segmenting can_segment() const noexcept override { return segmenting_; }
  int wait_fd(uint16_t queue) const noexcept override { return queues_[queue]->fd.get(); }
  PortStats stats() override;
  uint16_t queues() const noexcept override { return n_queues_; }
  TxProgress tx_progress(uint16_t queue) const noexcept override {
    return {queues_[queue]->tx_taken.get(), queues_[queue]->tx_refused.get()};
  }
  std::string driver() const override { return "kernel"; }
  std::vector<OffloadState> offloads() const override;
  // Asks the kernel. An interface counts as back when one of that name is up and large enough.
  Health health() const noexcept override;
  void restart() override;

 private:
  // The longest frame: an IP packet of 64 KB behind an Ethernet header and a tag.
  static constexpr uint32_t kMaxFrame = 65600;
  static constexpr uint16_t kMaxTails = 40;
  static constexpr uint16_t kTxBatch = 64;
  static constexpr uint16_t kMaxCut = 4096;  // packets that were merged in tunnels, of one call
  static constexpr uint16_t kTxIovecs = 1024;  // the kernel takes no more for one packet (UIO_MAXIOV)
  static constexpr uint16_t kMaxQueues = 64;
  static constexpr uint16_t kPatience = 16;  // calls in a row that fail for want of room; a TxBuffer makes 64

  // Written by one thread, read by any.
  class Count {
   public:
    void add(uint64_t n) noexcept { v_.store(get() + n, std::memory_order_relaxed); }
    uint64_t get() const noexcept { return v_.load(std::memory_order_relaxed); }

   private:
    std::atomic<uint64_t> v_{0};
  };

  // Where one packet may be received: a small buffer, and large ones behind it for what GRO merged.
  // What a packet doesn't need stays for the next.
  struct Slot {
    VnetHeader hdr;
    sockaddr_ll from;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(tpacket_auxdata))> control;
    rte_mbuf* head = nullptr;
    uint16_t n_tails = 0;
    std::array<rte_mbuf*, kMaxTails> tails;
    std::array<iovec, kMaxTails + 2> iov;
  };

  struct alignas(64) Queue {
    ~Queue();
    // Gives buffers to the first n slots; returns how many of them can take a packet.
    uint16_t refill(uint16_t n) noexcept;
    void post(uint16_t slot) noexcept;
    void take(uint16_t slot) noexcept;
    uint16_t hand_out(rte_mbuf** pkts, uint16_t n) noexcept;
    rte_mbuf* unchain(Slot& s, uint32_t len) noexcept;
    // Describes as many of the packets as one call can send; returns their number.
    uint16_t build(rte_mbuf** pkts, uint16_t n) noexcept;

    Fd fd;
    Buffers buffers;
    uint16_t mtu = 0;
    uint16_t want_tails = 0;
    uint16_t lacking = kBurst;  // slots from here on have all their buffers
    std::array<mmsghdr, kBurst> rx_msgs{};
    std::array<Slot, kBurst> slots;

    // Received and not handed out: at most a burst, but for what was merged in tunnels.
    std::array<rte_mbuf*, kBurst + kMaxCut> waiting;
    uint16_t waiting_at = 0, waiting_n = 0;

    uint16_t no_room = 0;  // calls in a row that failed so

    std::array<mmsghdr, kTxBatch> tx_msgs{};
    std::array<VnetHeader, kTxBatch> tx_hdrs{};
    std::array<iovec, kTxIovecs + kTxBatch> tx_iov;

    // Written by the worker, read by the control thread.
    alignas(64) Count rx_pkts;
    Count rx_bytes, rx_no_buffer, rx_truncated, rx_errors;
    Count tx_pkts, tx_bytes, tx_too_big, tx_errors, tx_down, tx_taken, tx_refused;
    // Control thread: the kernel's count starts anew with each reading.
    alignas(64) uint64_t rx_dropped = 0;
  };

  explicit KernelPort(const KernelPortOptions& options);
  void attach();

  const KernelPortOptions options_;
  std::unique_ptr<ReceiveMerging> merging_;
  int ifindex_ = 0;  // of the interface that the sockets are bound to
  std::array<std::unique_ptr<Queue>, kMaxQueues> queues_;
  uint16_t n_queues_ = 0;
  Segmenting segmenting_;
};

}  // namespace pxio
