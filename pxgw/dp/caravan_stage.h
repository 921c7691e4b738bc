// SPDX-License-Identifier: BSD-3-Clause
// Caravans (docs/caravan-format.md) at the gateway: inbound datagrams share jumbos on their way to hosts that
// asked for it, caravans of inside hosts come apart, hellos are answered. Worker thread.
#pragma once
#include "caravan/core/registrar.h"
#include "caravan/dp/bundler.h"
#include "caravan/dp/spacer.h"
#include "caravan/dp/unbundler.h"
#include "pxgw/dp/reassembler.h"
#include "pxgw/dp/stage.h"

namespace pxgw {

// What the stages of all workers share.
struct CaravanHosts {
  CaravanHosts(uint32_t capacity, const caravan::Secret& key, uint64_t session_id)
      : table(capacity, key), secret(key), session(session_id) {}
  caravan::HostTable table;
  const caravan::Secret secret;
  const uint64_t session;  // not 0; another one after a restart
};

class CaravanStage final : public Stage {
 public:
  // Pairs of addresses that may be held at once, and datagrams in all of them.
  static constexpr uint32_t kPairs = 4096, kMostHeld = 8192;
  // Datagrams of which fragments wait, and for how long.
  static constexpr uint32_t kFragmented = 512;
  static constexpr pxio::Nanos kFragmentsWait = std::chrono::milliseconds(20);

  // `max_segs`: buffers that the inside and the outside port take in one packet. Throws std::bad_alloc.
  struct Ports {
    uint16_t inside_segs, outside_segs;
  };
  CaravanStage(const Context& context, CaravanHosts& hosts, Ports ports);

  void process(std::span<Packet> pkts, pxio::Nanos now) noexcept override;
  void flush_expired(pxio::Nanos now) noexcept override;
  std::optional<pxio::Nanos> next_deadline() const noexcept override;
  void count() noexcept override;
  void drain(pxio::Nanos now) noexcept override;
  void apply(const Policy& policy, pxio::Nanos now) noexcept override;

 private:
  bool inbound(const Packet& p, pxio::Nanos now) noexcept;
  // The size of caravans that the packet's host takes; 0: it takes none.
  uint16_t taken_by_host(const rte_mbuf& m, const pxio::PacketView& v, pxio::Nanos now) const noexcept;
  bool foreign(const rte_mbuf& m, const pxio::PacketView& v, pxio::Nanos now) const noexcept;
  bool reassembles() const noexcept;
  bool reassemble(const Packet& p, pxio::Nanos now) noexcept;
  bool part(const Packet& p, pxio::Nanos now) noexcept;
  void let_go(pxio::Nanos now) noexcept;  // of fragments that wait
  void to_host(std::span<rte_mbuf* const> pkts, pxio::Nanos now) noexcept;
  bool outbound(const Packet& p, pxio::Nanos now) noexcept;
  void take_apart(pxio::PktPtr pkt, const pxio::PacketView& v, pxio::Nanos now) noexcept;
  uint64_t pair_hash(const rte_mbuf& m, const pxio::PacketView& v) const noexcept;
  bool from_inside_host(const rte_mbuf& m, const pxio::PacketView& v) const noexcept;

  const Policy* policy_;
  Translator& outlet_;
  pxio::TxBuffer& to_inside_;
  Counters& count_;
  pxio::Buffers buffers_;
  CaravanHosts& hosts_;
  const Ports ports_;
  caravan::Registrar registrar_;
  caravan::Bundler bundler_;
  caravan::Unbundler unbundler_;
  caravan::Spacer spacer_;
  Reassembler reassembler_;
};

}  // namespace pxgw
