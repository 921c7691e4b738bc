// SPDX-License-Identifier: BSD-3-Clause
// The path MTU to a host over several source ports: routers that share load hash them, so each may
// take another path. What holds for all of them is the least. One thread.
#pragma once
#include <span>
#include <vector>

#include "fpmtud/core/session.h"

namespace fpmtud {

// With two paths of equal share, one in 2^4 measurements sees the wider alone; each port more costs
// a round.
constexpr uint16_t kDefaultPorts = 4;

class PortPaths {
 public:
  struct Path {
    uint16_t port = 0;
    PathMtu result;
  };
  // The result of one source port. Silence counts only where all ports are silent.
  void add(uint16_t port, const PathMtu& r);
  const PathMtu& result() const { return result_; }
  // Whether two ports' results can't be of the same path; loss alone doesn't make it so.
  bool differ() const;
  std::span<const Path> each() const { return paths_; }

 private:
  std::vector<Path> paths_;
  PathMtu result_;
};

}  // namespace fpmtud
