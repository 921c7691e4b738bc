// SPDX-License-Identifier: BSD-3-Clause
// A path in simulated time, between a Session and a Responder, with what paths do to packets.
#pragma once
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "fpmtud/core/port_paths.h"
#include "fpmtud/core/responder.h"
#include "fpmtud/core/session.h"

namespace test {

using namespace fpmtud;

struct Path {
  Family family = Family::kIpv4;
  std::vector<uint16_t> mtus{9000};  // of the links
  size_t reassembler = SIZE_MAX;     // after this link a box joins fragments
  enum class Drop { kNone, kAll, kLater } drop = Drop::kNone;  // of fragments
  double loss = 0;                                             // of each fragment and report
  bool clears_df = false;
  double duplicated = 0;
  bool reversed = false;  // reports come in reverse order
  Time rtt = std::chrono::milliseconds(20);
  std::mt19937 random{1};

  uint16_t truth() const;
  // What arrives of one datagram: nothing, or its largest fragment (0: whole).
  std::optional<uint16_t> carry(uint16_t size, bool fragmentable);
  bool lost() { return std::uniform_real_distribution<>(0, 1)(random) < loss; }
};

// Runs a session over the path until it is done. `on_report` may change each report before the
// session sees it, or say false to lose it.
PathMtu measure(Path& path, SessionConfig config, Responder* responder = nullptr,
                const std::function<bool(Report&)>& on_report = {});

// Paths that share the load by source port.
struct Ecmp {
  std::vector<Path> paths;
  Path& of(uint16_t port) { return paths[(port * 0x9e3779b1u >> 16) % paths.size()]; }
};

// A session from each of so many neighbouring ports.
PortPaths measure(Ecmp& net, const SessionConfig& config, uint16_t first_port,
                  uint16_t ports = kDefaultPorts);

Endpoint someone(uint8_t last, Family family = Family::kIpv4);
ResponderConfig generous();
std::vector<uint8_t> probe_bytes(Family family, uint16_t size, uint8_t flags = 0, uint8_t round = 0,
                                 uint16_t seq = 0, const Key* key = nullptr, uint8_t nonce = 7);

}  // namespace test
