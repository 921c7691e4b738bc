// SPDX-License-Identifier: BSD-3-Clause
// Path MTU probes that pass the gateway from outside: answers those for inside hosts that the configuration
// names, and takes in what comes back about its own. All else is left alone. Worker thread.
#pragma once
#include <array>
#include <optional>

#include "fpmtud/core/responder.h"
#include "pxgw/dp/probe_fragments.h"
#include "pxgw/dp/stage.h"
#include "pxgw/dp/udp_packet.h"

namespace pxgw {

class ProbeStage : public Stage {
 public:
  // Reports go to `box`, which outlives the stage, as of pair number `pair`. With a key what isn't signed
  // isn't answered. Throws std::bad_alloc.
  ProbeStage(const Context& context, Mailbox& box, uint8_t pair, std::optional<fpmtud::Key> key);

  void process(std::span<Packet> pkts, pxio::Nanos now) noexcept override;
  void apply(const Policy& policy, pxio::Nanos now) noexcept override;
  void command(const Command& c, pxio::Nanos now) noexcept override;

 private:
  // A probe of our own that may be answered.
  struct Expected {
    PathKey to, from;
    uint16_t port = 0, from_port = 0;
    std::array<uint8_t, 16> nonce{};
    bool in_use = false;
  };
  struct Datagram {
    UdpEnds ends;
    uint16_t payload = 0;  // bytes
    uint32_t at = 0;       // of it, from the packet's start
  };
  static std::optional<Datagram> read(const rte_mbuf& m, const pxio::PacketView& v) noexcept;
  bool take_datagram(rte_mbuf& m, const pxio::PacketView& v, pxio::Nanos now) noexcept;
  bool take_fragment(const rte_mbuf& m, const pxio::PacketView& v, pxio::Nanos now) noexcept;
  bool take_error(const rte_mbuf& m, const pxio::PacketView& v, pxio::Nanos now) noexcept;
  bool take_answer(const rte_mbuf& m, const pxio::PacketView& v, const Datagram& d, pxio::Nanos now) noexcept;
  bool answers_for(const PathKey& inside) const noexcept;
  void answer(const rte_mbuf& m, const pxio::PacketView& v, const UdpEnds& ends,
              const fpmtud::Arrival& arrival, pxio::Nanos now) noexcept;
  const Expected* expected(const UdpEnds& probe) const noexcept;

  const Policy* policy_;
  pxio::Buffers buffers_;
  pxio::TxBuffer& to_outside_;
  Counters& count_;
  Mailbox& box_;
  const uint8_t pair_;
  fpmtud::Responder responder_;
  ProbeFragments fragments_;
  std::array<Expected, 64> expected_;  // PathProber's destinations under way, each with all of its checks
  uint32_t expecting_ = 0, next_expected_ = 0;
};

}  // namespace pxgw
