// SPDX-License-Identifier: BSD-3-Clause
// The fan-out's share of the path: ports whose packets one thread distributes over the workers. A thread of
// its own.
#pragma once
#include <optional>
#include <vector>

#include "pxio/dp/fanout_port.h"
#include "pxio/dp/polled.h"

namespace pxgw {

class FanOut final : public pxio::Polled {
 public:
  // The ports outlive it.
  void add(pxio::FanoutPort& port) { ports_.push_back(&port); }
  bool empty() const { return ports_.empty(); }

  bool poll_once(pxio::Nanos now) noexcept override;
  std::optional<pxio::Nanos> next_deadline() const noexcept override;
  std::vector<int> wait_fds() const override;
  void before_sleep() noexcept override;
  void after_sleep(pxio::Nanos now) noexcept override;
  void drain(pxio::Nanos now) noexcept override;

 private:
  std::vector<pxio::FanoutPort*> ports_;
};

}  // namespace pxgw
