// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/fanout_port.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "pxio/dp/pkt.h"

namespace pxio {
namespace {

constexpr uint32_t kIdlePumps = 1024;  // without a packet, until sent buffers are asked back

}  // namespace

FanoutPort::Event::Event() : fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd.get() < 0) throw std::runtime_error("no file descriptor is left for the fan-out; raise `ulimit -n`");
}

// Both sides first write and then read: sequential consistency makes one of them see the other.
void FanoutPort::Event::arm() noexcept { asleep.exchange(true, std::memory_order_seq_cst); }
void FanoutPort::Event::disarm() noexcept {
  asleep.store(false, std::memory_order_relaxed);
  uint64_t count;
  [[maybe_unused]] const ssize_t r = read(fd.get(), &count, sizeof count);
}
void FanoutPort::Event::wake() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!asleep.load(std::memory_order_relaxed) || !asleep.exchange(false, std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t r = write(fd.get(), &one, sizeof one);
}

FanoutPort::FanoutPort(std::unique_ptr<Port> port, uint16_t workers, const FlowHash& hash)
    : port_(std::move(port)), n_(workers), hash_(hash) {
  for (uint16_t i = 0; i < n_; ++i) lanes_.push_back(std::make_unique<Lane>());
}

FanoutPort::~FanoutPort() {
  for (const auto& lane : lanes_) {
    for (uint16_t i = 0; i < lane->pending_n; ++i) PktPtr(lane->pending[i]).reset();
    for (auto* ring : {&lane->in, &lane->out})
      for (rte_mbuf* m; ring->take(m);) PktPtr(m).reset();
  }
}

bool FanoutPort::pump() noexcept {
  bool any = false;
  for (uint16_t q = 0; q < port_->queues(); ++q) any |= receive(q);
  for (const auto& lane : lanes_) any |= send(*lane);
  if (any) {
    empty_pumps_ = 0;
  } else if (++empty_pumps_ == kIdlePumps) {
    empty_pumps_ = 0;
    for (uint16_t q = 0; q < port_->queues(); ++q) port_->idle(q);
  }
  return any;
}

bool FanoutPort::receive(uint16_t queue) noexcept {
  rte_mbuf* pkts[kBurst];
  const uint16_t n = port_->rx_burst(queue, pkts, kBurst);
  if (n == 0) return false;
  for (uint16_t i = 0; i < n; ++i) rte_prefetch0(data(*pkts[i]));
  for (uint16_t i = 0; i < n; ++i) {
    Lane& lane = *lanes_[share_of(hash_(*pkts[i]), n_)];
    lane.sorted[lane.sorted_n++] = pkts[i];
  }
  uint64_t lost = 0;
  for (const auto& lane : lanes_) {
    const uint16_t m = std::exchange(lane->sorted_n, uint16_t{0});
    if (m == 0) continue;
    const uint32_t taken = lane->in.put_burst(lane->sorted.data(), m);
    for (uint32_t i = taken; i < m; ++i) PktPtr(lane->sorted[i]).reset();
    lost += m - taken;
    lane->event.wake();
  }
  if (lost != 0) dropped_.store(dropped_.load(std::memory_order_relaxed) + lost, std::memory_order_relaxed);
  return true;
}

// What the port doesn't take waits here, and behind it in the ring.
bool FanoutPort::send(Lane& lane) noexcept {
  if (lane.pending_n == 0) {
    lane.pending_n = static_cast<uint16_t>(lane.out.take_burst(lane.pending.data(), kBurst));
    if (lane.pending_n == 0) return false;
  }
  const uint16_t taken = port_->tx_burst(0, lane.pending.data(), lane.pending_n);
  std::copy(lane.pending.begin() + taken, lane.pending.begin() + lane.pending_n, lane.pending.begin());
  lane.pending_n = static_cast<uint16_t>(lane.pending_n - taken);
  return taken != 0;
}

bool FanoutPort::pending() const noexcept {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->pending_n != 0; });
}

void FanoutPort::drain() noexcept {
  for (const auto& lane : lanes_)
    while (send(*lane)) {
    }
}

std::vector<int> FanoutPort::pump_fds() const {
  std::vector<int> fds{pump_event_.fd.get()};
  for (uint16_t q = 0; q < port_->queues(); ++q) fds.push_back(port_->wait_fd(q));
  return fds;
}

void FanoutPort::arm_pump() noexcept {
  pump_event_.arm();
  for (uint16_t q = 0; q < port_->queues(); ++q) port_->arm(q);
}

void FanoutPort::disarm_pump() noexcept {
  pump_event_.disarm();
  for (uint16_t q = 0; q < port_->queues(); ++q) port_->disarm(q);
}

uint16_t FanoutPort::rx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept {
  return static_cast<uint16_t>(lanes_[queue]->in.take_burst(pkts, n));
}

uint16_t FanoutPort::tx_burst(uint16_t queue, rte_mbuf** pkts, uint16_t n) noexcept {
  const uint32_t taken = lanes_[queue]->out.put_burst(pkts, n);
  pump_event_.wake();
  return static_cast<uint16_t>(taken);
}

PortStats FanoutPort::stats() {
  PortStats s = port_->stats();
  s.rx_dropped += dropped_.load(std::memory_order_relaxed);
  return s;
}

std::vector<OffloadState> FanoutPort::offloads() const {
  std::vector<OffloadState> r = port_->offloads();
  r.push_back({"fan_out", true, fmt::format("{} for {} workers, by flow hash, by a thread of its own",
                                            port_->queues() == 1 ? std::string("one queue")
                                                                 : fmt::format("{} queues", port_->queues()),
                                            n_)});
  return r;
}

}  // namespace pxio
