// SPDX-License-Identifier: BSD-3-Clause
// TSO, as a NIC does it: one long TCP packet becomes frames of one segment each. The NIC's one
// thread.
#pragma once
#include <cstdint>
#include <functional>

#include "bench/nic/frame.h"

namespace softnic {

// Hands out each frame, valid during the call: `segsz` bytes of payload, the last one the rest;
// sequence number and IPv4 identification count up; FIN and PSH on the last alone, CWR on the first
// (RFC 3168, section 6.1.2); lengths and checksums made anew, whatever they were. Returns how many:
// 0 where it isn't TCP, has no payload to be cut, or `segsz` is 0.
uint32_t cut(Frame packet, uint16_t segsz, const std::function<void(Frame)>& out);

}  // namespace softnic
