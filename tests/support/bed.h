// SPDX-License-Identifier: BSD-3-Clause
// A gateway between two vector ports, with a clock that the test turns. What leaves is decoded; when
// the bed goes, everything must be accounted for.
#pragma once
#include <memory>
#include <vector>

#include "pxgw/dp/gateway.h"
#include "tests/support/eal.h"
#include "tests/support/flow.h"
#include "tests/support/ports.h"

namespace test {

inline pxgw::Capacity small_capacity() {
  pxgw::Capacity c;
  c.flows = 256;
  c.handshakes = 64;
  c.held = 64;
  c.pmtu = 64;
  return c;
}

class Bed {
 public:
  // `cuts`: what either port cuts by itself.
  explicit Bed(const pxgw::Policy& policy = {}, const pxgw::Capacity& capacity = small_capacity(),
               pxio::BufferPools* own_pools = nullptr, const pxio::Segmenting& cuts = {});
  // Drains and checks the balance; throws std::logic_error where it doesn't hold.
  ~Bed() noexcept(false);

  // One burst a call (more than kBurst frames: several). Runs expired holds first, as a worker does.
  void in(const std::vector<Frame>& frames) { process(pxio::Direction::kInbound, frames); }
  void out(const std::vector<Frame>& frames) { process(pxio::Direction::kOutbound, frames); }
  void process(pxio::Direction d, const std::vector<Frame>& frames);
  // An inbound burst, and time until nothing is held any more: what left towards the inside.
  std::vector<Decoded> merge(const std::vector<Frame>& frames);
  // Lets time pass; what expires leaves at its deadline.
  void advance(pxio::Nanos by);
  void housekeeping(int times = 1);
  void drain();
  void apply(const pxgw::Policy& policy);
  void flush_tx();

  // What left since the last call.
  std::vector<Decoded> inside() { return inside_port_.take(); }
  std::vector<Decoded> outside() { return outside_port_.take(); }
  void forget() { inside(), outside(); }
  const pxgw::Counters& count() { return gateway_->counters(); }
  CollectPort& inside_port() { return inside_port_; }
  CollectPort& outside_port() { return outside_port_; }
  pxgw::Gateway& gateway() { return *gateway_; }
  pxio::Nanos now() const { return now_; }
  void set_now(pxio::Nanos t) { now_ = t; }

  // The three-way handshake; what it sends is thrown away.
  void open(const Flow& flow);
  // A handshake, then so many full segments back to back that the flow counts as bulk transfer; the
  // last one carries PSH. Returns the offset of the next byte.
  uint32_t open_bulk(const Flow& flow);

  // Drains; then every packet in is one out, inside one out, or under a drop counter, and every buffer
  // is back. Returns what's wrong, or nothing.
  std::string check_balance();
  // Frames that couldn't be given in for want of buffers.
  uint64_t not_received() const { return not_received_; }

 private:
  pxio::BufferPools& pools_;
  pxgw::Policy policy_, next_policy_;
  CollectPort inside_port_, outside_port_;
  pxio::TxBuffer inside_tx_, outside_tx_;
  std::unique_ptr<pxgw::Gateway> gateway_;
  pxio::Nanos now_ = std::chrono::seconds(1);
  uint64_t given_[2] = {0, 0};
  uint64_t not_received_ = 0;
  int exceptions_;
};

// Payloads of consecutive outputs, glued together.
Bytes payload_of(const std::vector<Decoded>& packets);
// The bytes that the stream of `t` has from its sequence number on.
Bytes stream_of(const Tcp& t, size_t len);
// Whether they are equal; as a function, so that failing tests don't print kilobytes of payload.
inline bool same(const Bytes& a, const Bytes& b) { return a == b; }
std::string text_of(const std::vector<Decoded>& packets);

}  // namespace test
