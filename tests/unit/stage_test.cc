// SPDX-License-Identifier: BSD-3-Clause
// Stages: what isn't TCP is theirs to take, once a burst; what none takes leaves as it came.
#include "pxgw/dp/stage.h"
#include "tests/support/checks.h"

using namespace test;

namespace {

// Holds the datagrams to one port until their time has come.
class Holder : public pxgw::Stage {
 public:
  Holder(const Context& c, uint16_t port, std::vector<size_t>& offered) : tx_(c.to_inside), port_(port), offered_(offered) {}
  ~Holder() override { drain({}); }

  void process(std::span<Packet> pkts, pxio::Nanos now) noexcept override {
    offered_.push_back(pkts.size());
    for (Packet& p : pkts) {
      if (p.view->kind != pxio::Kind::kUdp || p.dir != pxio::Direction::kInbound) continue;
      if (pxio::load<pxio::be16>(pxio::data(*p.pkt) + p.view->l4_off() + 2).host() != port_) continue;
      held_.emplace_back(p.pkt);
      p.pkt = nullptr;
      until_ = now + std::chrono::microseconds(10);
    }
  }
  void flush_expired(pxio::Nanos now) noexcept override {
    if (!held_.empty() && now >= until_) drain(now);
  }
  std::optional<pxio::Nanos> next_deadline() const noexcept override {
    return held_.empty() ? std::nullopt : std::optional(until_);
  }
  void drain(pxio::Nanos) noexcept override {
    for (auto& p : held_) tx_.push(std::move(p));
    held_.clear();
  }

 private:
  pxio::TxBuffer& tx_;
  uint16_t port_;
  std::vector<size_t>& offered_;
  std::vector<pxio::PktPtr> held_;
  pxio::Nanos until_{};
};

Frame to_port(uint16_t port, size_t payload = 100) { return udp(Lower{}, 5000, port, payload); }

}  // namespace

TEST_CASE("Stage: takes what is its own, the rest passes to the next one and out", "[stage]") {
  std::vector<size_t> first, second;
  Bed bed;
  bed.gateway().add_stage([&](const auto& c) { return std::make_unique<Holder>(c, 1, first); });
  bed.gateway().add_stage([&](const auto& c) { return std::make_unique<Holder>(c, 2, second); });
  const Flow flow({4, 0, true});
  const Frame ack = flow.in(0, 0);
  bed.in({to_port(1), to_port(2), to_port(3), ack, to_port(2)});
  CHECK(first == std::vector<size_t>{4});
  CHECK(second == std::vector<size_t>{3});
  // TCP isn't offered, and doesn't wait for the others.
  check_untouched(bed.inside(), {ack, to_port(3)});
  CHECK(bed.gateway().next_deadline() == bed.now() + std::chrono::microseconds(10));
  bed.advance(std::chrono::microseconds(11));
  check_untouched(bed.inside(), {to_port(1), to_port(2), to_port(2)});
  CHECK(!bed.gateway().next_deadline());
}

TEST_CASE("Stage: fragments are offered unless they are TCP's; outbound too", "[stage]") {
  std::vector<size_t> offered;
  Bed bed;
  bed.gateway().add_stage([&](const auto& c) { return std::make_unique<Holder>(c, 1, offered); });
  Lower lower;
  lower.df = false;
  lower.mf = true;
  const Frame of_udp{ip_frame(lower, 17, Bytes(64))}, of_tcp{ip_frame(lower, 6, Bytes(64))};
  bed.out({of_udp, of_tcp, to_port(1)});
  CHECK(offered == std::vector<size_t>{2});
  check_untouched(bed.outside(), {of_tcp, of_udp, to_port(1)});
}

TEST_CASE("Stage: what it holds leaves on a drain", "[stage]") {
  std::vector<size_t> offered;
  Bed bed;
  bed.gateway().add_stage([&](const auto& c) { return std::make_unique<Holder>(c, 1, offered); });
  bed.in({to_port(1)});
  CHECK(bed.inside().empty());
  bed.drain();
  check_untouched(bed.inside(), {to_port(1)});
}
