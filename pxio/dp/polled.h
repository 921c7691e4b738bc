// SPDX-License-Identifier: BSD-3-Clause
// What a polling thread drives: a worker, or the fan-out.
#pragma once
#include <optional>
#include <vector>

#include "pxio/dp/units.h"

namespace pxio {

class Polled {
 public:
  virtual ~Polled() = default;
  // All there is to do, once. Returns whether there was anything, or is left for the next call.
  virtual bool poll_once(Nanos now) noexcept = 0;
  // When poll_once has something to do next though nothing comes in.
  virtual std::optional<Nanos> next_deadline() const noexcept { return {}; }
  // File descriptors to sleep on; one below 0: something can't be waited for, only looked at.
  virtual std::vector<int> wait_fds() const = 0;
  // Before a sleep: from now on what comes in makes a descriptor readable. What came before may not: it
  // is polled for once more.
  virtual void before_sleep() noexcept = 0;
  virtual void after_sleep(Nanos now) noexcept = 0;
  // For the last time: what is held leaves.
  virtual void drain(Nanos now) noexcept = 0;
};

}  // namespace pxio
