// SPDX-License-Identifier: BSD-3-Clause
// What control thread and one worker tell each other: commands and packets to the worker, reports from it.
// Fixed sizes; what finds its ring full is dropped and counted. The control thread's and the worker's side,
// one thread each.
#pragma once
#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "pxgw/dp/path_key.h"
#include "pxio/dp/spsc_ring.h"
#include "pxio/dp/units.h"

namespace pxgw {

struct Command {
  enum class Kind : uint8_t {
    kTransmit,   // `pkt` leaves on the outside port
    kConfirm,    // the path MTU of `to` is `mtu`, a probe has shown
    kLower,      // it is at most `mtu`, another worker has seen
    kSilent,     // nobody answers probes at `to`
    kForget,     // what is known of `to` is forgotten; of all where its version is 0
    kWatchFor,   // the next packet to `to` is reported, whatever its flow has sent
    kExpect,     // reports about a probe come from `to` and `port`, for `from` and `from_port`
    kExpectEnd,  // no longer; `nonce` tells which
  };
  Kind kind = Kind::kForget;
  uint8_t pair = 0;                   // one that there is
  uint16_t mtu = 0;                   // bytes of IP packet
  uint16_t port = 0, from_port = 0;   // host byte order
  PathKey to, from;
  std::array<uint8_t, 16> nonce{};
  rte_mbuf* pkt = nullptr;            // whoever takes the command takes it, too
};

struct Report {
  enum class Kind : uint8_t {
    kElephant,  // much goes to `to`, whose path hasn't been probed; `bytes` is a link-layer header to there
    kWatched,   // the same about what kWatchFor asked for
    kLowered,   // the path MTU of `to` was lowered to `mtu` by an error or retransmissions
    kAnswer,    // `bytes` is the payload of a datagram from `to` that kExpect asked for
    kRefused,   // an ICMP error says that nobody listens at `to`; `nonce` was quoted
  };
  Kind kind = Kind::kLowered;
  uint8_t pair = 0;
  uint16_t mtu = 0;
  uint16_t length = 0;  // of `bytes`
  PathKey to, from;     // outside and inside address
  pxio::Nanos at{0};    // when the worker saw it
  std::array<uint8_t, 16> nonce{};
  std::array<uint8_t, 80> bytes{};
};

class Mailbox {
 public:
  // Throws std::bad_alloc.
  explicit Mailbox(uint32_t commands = 1024, uint32_t reports = 512)
      : commands_(commands), reports_(reports) {}

  // Control. False: full; what the command refers to is still the caller's.
  bool send(const Command& c) noexcept {
    const bool sent = commands_.put(c);
    commands_dropped_ += !sent;
    return sent;
  }
  bool take(Report& r) noexcept { return reports_.take(r); }
  uint64_t commands_dropped() const noexcept { return commands_dropped_; }
  uint64_t reports_dropped() const noexcept { return reports_dropped_.load(std::memory_order_relaxed); }

  // Worker.
  bool empty() const noexcept { return commands_.empty(); }
  bool take(Command& c) noexcept { return commands_.take(c); }
  void report(const Report& r) noexcept {
    if (reports_.put(r)) return;
    reports_dropped_.store(reports_dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

 private:
  pxio::SpscRing<Command> commands_;
  pxio::SpscRing<Report> reports_;
  uint64_t commands_dropped_ = 0;                // control's own
  std::atomic<uint64_t> reports_dropped_{0};     // written by the worker, read by control
};

}  // namespace pxgw
