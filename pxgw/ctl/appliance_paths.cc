// SPDX-License-Identifier: BSD-3-Clause
// The Appliance's exchange with its workers about paths.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "pxgw/ctl/appliance.h"
#include "pxgw/ctl/clock.h"

namespace pxgw {

using namespace std::chrono_literals;
using pxio::Nanos;

namespace {

// While probes are under way, their reports are looked for as often as round trips within a site take.
constexpr Nanos kBusy = 1ms, kIdle = 20ms, kNotProbing = 200ms;
constexpr uint32_t kMostReports = 1024;  // of a worker at a time

}  // namespace

PathProber::Options Appliance::prober_options(const Config& c) const {
  PathProber::Options o{.probe = c.policy.probing.probe,
                        .port = c.policy.probing.port,
                        .key = probe_key_,
                        .per_second = c.pmtu.probes_per_second,
                        .lifetime = c.policy.pmtu_timeout};
  for (size_t i = 0; i < c.pairs.size(); ++i) {
    const Policy p = c.policy_of(i);
    o.top.push_back(p.outside_mtu);
    o.assumed.push_back(p.assumed_path());
  }
  return o;
}

void Appliance::start_prober() {
  to_wake_.assign(workers_.size(), false);
  prober_ = std::make_unique<PathProber>(
      prober_options(config_),
      PathProber::Workers{
          .count = static_cast<uint16_t>(workers_.size()),
          .tell = [this](uint16_t worker, const Command& c) { return tell(worker, c); },
          .transmit = [this](uint16_t worker, uint8_t pair, std::span<const uint8_t> frame) {
            return transmit(worker, pair, frame);
          }});
}

bool Appliance::tell(uint16_t worker, const Command& c) {
  to_wake_[worker] = true;
  return workers_[worker]->mailbox().send(c);
}

bool Appliance::transmit(uint16_t worker, uint8_t pair, std::span<const uint8_t> frame) {
  const auto len = static_cast<uint16_t>(frame.size());
  pxio::PktPtr p(rte_pktmbuf_alloc(pxio::pool_for(pools_->buffers(), len)));
  char* to = p ? rte_pktmbuf_append(p.get(), len) : nullptr;
  if (to == nullptr) return false;
  std::memcpy(to, frame.data(), frame.size());
  if (!tell(worker, {.kind = Command::Kind::kTransmit, .pair = pair, .pkt = p.get()})) return false;
  [[maybe_unused]] rte_mbuf* sent = p.release();
  return true;
}

std::chrono::nanoseconds Appliance::exchange() {
  const Nanos now = clock_now();
  Report r;
  for (uint16_t w = 0; w < workers_.size(); ++w)
    for (uint32_t i = 0; i < kMostReports && workers_[w]->mailbox().take(r); ++i) prober_->take(w, r, now);
  const Nanos next = prober_->advance(now);
  for (size_t w = 0; w < to_wake_.size(); ++w) {
    if (to_wake_[w]) threads_[w]->wake();
    to_wake_[w] = false;
  }
  const Nanos most = prober_->busy() ? kBusy : config_.policy.probing.probe ? kIdle : kNotProbing;
  return std::clamp(next - now, std::min(most, kBusy), most);
}

Json Appliance::pmtu(const Json& request) {
  const std::string what = request.value("what", "");
  const Nanos now = clock_now();
  if (what == "list") return prober_->list(now);
  if (what == "flush") {
    prober_->flush();
    return {{"flushed", true}};
  }
  if (what != "show" && what != "probe")
    throw std::runtime_error("unknown request; known: list, show, probe, flush");
  const PathKey to = parse_destination(request.value("to", ""));
  if (what == "probe") prober_->probe(to, now);
  return prober_->show(to, now);
}

}  // namespace pxgw
