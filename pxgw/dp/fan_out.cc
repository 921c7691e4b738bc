// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/fan_out.h"

namespace pxgw {

bool FanOut::poll_once(pxio::Nanos) noexcept {
  bool any = false;
  for (pxio::FanoutPort* p : ports_) any |= p->pump();
  return any;
}

// What a port didn't take is tried again at once.
std::optional<pxio::Nanos> FanOut::next_deadline() const noexcept {
  for (const pxio::FanoutPort* p : ports_)
    if (p->pending()) return pxio::Nanos(0);
  return {};
}

std::vector<int> FanOut::wait_fds() const {
  std::vector<int> fds;
  for (const pxio::FanoutPort* p : ports_)
    for (const int fd : p->pump_fds()) fds.push_back(fd);
  return fds;
}

void FanOut::before_sleep() noexcept {
  for (pxio::FanoutPort* p : ports_) p->arm_pump();
}

void FanOut::after_sleep(pxio::Nanos) noexcept {
  for (pxio::FanoutPort* p : ports_) p->disarm_pump();
}

void FanOut::drain(pxio::Nanos) noexcept {
  for (pxio::FanoutPort* p : ports_) p->drain();
}

}  // namespace pxgw
