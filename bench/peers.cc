// SPDX-License-Identifier: BSD-3-Clause
#include "bench/peers.h"

#include <rte_ethdev.h>
#include <rte_gro.h>
#include <rte_gso.h>
#include <rte_ip.h>
#include <rte_tcp.h>

#include <stdexcept>

#include "bench/floor.h"
#include "pxio/dp/pkt.h"

namespace bench {
namespace {

constexpr uint16_t kBurst = 32;

uint16_t take(rte_ring* r, rte_mbuf** pkts) {
  return static_cast<uint16_t>(rte_ring_sc_dequeue_burst(r, reinterpret_cast<void**>(pkts), kBurst, nullptr));
}
void give(rte_ring* r, rte_mbuf** pkts, unsigned n) {
  rte_ring_sp_enqueue_burst(r, reinterpret_cast<void**>(pkts), n, nullptr);
}

class Gro final : public Subject {
 public:
  Gro(Wires& w, uint32_t flows, uint32_t polls) : w_(w), polls_(polls) {
    rte_gro_param param{};
    param.gro_types = RTE_GRO_TCP_IPV4;
    param.max_flow_num = static_cast<uint16_t>(std::max(8u, flows));
    param.max_item_per_flow = 4;
    ctx_ = rte_gro_ctx_create(&param);
    if (ctx_ == nullptr) throw std::runtime_error("librte_gro takes no table of this size");
  }
  ~Gro() override { rte_gro_ctx_destroy(ctx_); }
  bool poll() noexcept override {
    rte_mbuf* pkts[kBurst];
    const uint16_t n = take(w_.from_outside.get(), pkts);
    if (n != 0) {
      const uint16_t left = rte_gro_reassemble(pkts, n, ctx_);
      give(w_.to_inside.get(), pkts, left);
    }
    if (++polled_ % polls_ == 0) flush();
    return n != 0;
  }
  void drain() noexcept override { flush(); }

 private:
  void flush() noexcept {
    rte_mbuf* out[256];
    for (uint16_t n; (n = rte_gro_timeout_flush(ctx_, 0, RTE_GRO_TCP_IPV4, out, 256)) != 0;)
      give(w_.to_inside.get(), out, n);
  }
  Wires& w_;
  uint32_t polls_, polled_ = 0;
  void* ctx_;
};

class Gso final : public Subject {
 public:
  Gso(Wires& w, Sums sums) : w_(w), sums_(sums) {
    direct_ = rte_pktmbuf_pool_create(sums == Sums::kMade ? "gso_sums_direct" : "gso_direct", 32768 - 1, 256, 0, 256 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
    indirect_ = rte_pktmbuf_pool_create(sums == Sums::kMade ? "gso_sums_indirect" : "gso_indirect", 65536 - 1, 256, 0, 0, SOCKET_ID_ANY);
    if (direct_ == nullptr || indirect_ == nullptr) throw std::runtime_error("no memory for librte_gso's pools");
    ctx_.direct_pool = direct_;
    ctx_.indirect_pool = indirect_;
    ctx_.gso_types = RTE_ETH_TX_OFFLOAD_TCP_TSO;
    ctx_.gso_size = 1514;
    ctx_.flag = 0;
  }
  ~Gso() override {
    rte_mempool_free(direct_);
    rte_mempool_free(indirect_);
  }
  bool poll() noexcept override {
    rte_mbuf* pkts[kBurst];
    const uint16_t n = take(w_.from_inside.get(), pkts);
    for (uint16_t i = 0; i < n; ++i) {
      rte_mbuf* out[64];
      rte_mbuf& m = *pkts[i];
      m.ol_flags |= RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
      const int pieces = rte_gso_segment(&m, &ctx_, out, 64);
      if (pieces <= 0) {
        rte_pktmbuf_free(&m);
        continue;
      }
      if (pieces > 1) rte_pktmbuf_free(&m);
      if (sums_ == Sums::kMade)
        for (int k = 0; k < pieces; ++k) sum(*out[k]);
      give(w_.to_outside.get(), out, static_cast<unsigned>(pieces));
    }
    return n != 0;
  }
  void drain() noexcept override {}

 private:
  static void sum(rte_mbuf& m) noexcept {
    auto* ip = rte_pktmbuf_mtod_offset(&m, rte_ipv4_hdr*, 14);
    auto* tcp = rte_pktmbuf_mtod_offset(&m, rte_tcp_hdr*, 34);
    ip->hdr_checksum = 0;
    ip->hdr_checksum = rte_ipv4_cksum(ip);
    tcp->cksum = 0;
    uint16_t payload = 0;
    rte_raw_cksum_mbuf(&m, 34, rte_pktmbuf_pkt_len(&m) - 34, &payload);
    const uint32_t all = uint32_t{payload} + rte_ipv4_phdr_cksum(ip, 0);
    tcp->cksum = static_cast<uint16_t>(~((all & 0xffff) + (all >> 16)));
  }
  Wires& w_;
  Sums sums_;
  rte_gso_ctx ctx_{};
  rte_mempool* direct_;
  rte_mempool* indirect_;
};

class Floor final : public Subject {
 public:
  Floor(Wires& w, pxio::Direction d)
      : from_(d == pxio::Direction::kInbound ? w.from_outside.get() : w.from_inside.get()),
        to_(d == pxio::Direction::kInbound ? w.to_inside.get() : w.to_outside.get()) {}
  bool poll() noexcept override { return floor_.poll(from_, to_) != 0; }
  void drain() noexcept override {}

 private:
  rte_ring* from_;
  rte_ring* to_;
  MergeFloor floor_;
};

class ReadFloor final : public Subject {
 public:
  explicit ReadFloor(Wires& w) : w_(w) {}
  bool poll() noexcept override {
    rte_mbuf* pkts[kBurst];
    const uint16_t n = take(w_.from_inside.get(), pkts);
    for (uint16_t i = 0; i < n; ++i) seen_ = seen_ ^ read_once(*pkts[i]);
    give(w_.to_outside.get(), pkts, n);
    return n != 0;
  }
  void drain() noexcept override {}

 private:
  Wires& w_;
  volatile uint64_t seen_ = 0;
};

}  // namespace

std::unique_ptr<Subject> gro(Wires& w, uint32_t flows, uint32_t polls) { return std::make_unique<Gro>(w, flows, polls); }
std::unique_ptr<Subject> gso(Wires& w, Sums sums) { return std::make_unique<Gso>(w, sums); }
std::unique_ptr<Subject> merge_floor(Wires& w, pxio::Direction d) { return std::make_unique<Floor>(w, d); }
std::unique_ptr<Subject> read_floor(Wires& w) { return std::make_unique<ReadFloor>(w); }

}  // namespace bench
