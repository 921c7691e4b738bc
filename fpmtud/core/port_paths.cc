// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/core/port_paths.h"

#include <algorithm>

namespace fpmtud {
namespace {

bool answered(const PathMtu& r) { return r.finding.mtu != 0; }

}  // namespace

void PortPaths::add(uint16_t port, const PathMtu& r) {
  paths_.push_back({port, r});
  if (paths_.size() == 1) {
    result_ = r;
    return;
  }
  const PathMtu was = result_;
  const bool less = answered(r) && (!answered(was) || r.finding.mtu < was.finding.mtu);
  // Refused is more than silent, which a filter or a loss may be.
  const bool refused = !answered(was) && r.verdict == Verdict::kRefused;
  if (less || refused) result_ = r;
  if (answered(r) && answered(was)) result_.proven = std::min(was.proven, r.proven);
  result_.notes = static_cast<uint16_t>(was.notes | r.notes);
  result_.round_trips = std::max(was.round_trips, r.round_trips);
  result_.rounds = std::max(was.rounds, r.rounds);
  result_.took = std::max(was.took, r.took);
}

bool PortPaths::differ() const {
  uint32_t lowest_limit = UINT32_MAX, highest = 0;
  for (const Path& p : paths_) {
    highest = std::max<uint32_t>(highest, p.result.finding.mtu);
    if (p.result.verdict == Verdict::kMeasured && p.result.finding.limit != 0)
      lowest_limit = std::min<uint32_t>(lowest_limit, p.result.finding.limit);
  }
  return highest >= lowest_limit;
}

}  // namespace fpmtud
