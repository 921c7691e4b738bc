// SPDX-License-Identifier: BSD-3-Clause
// Results as text and JSON, and what the exit status says.
#pragma once
#include <string>

#include "fpmtud/host/prober.h"

namespace fpmtud {

// One line, and one more for each thing that was odd.
std::string to_text(const TargetResult& r, const ProbeOptions& o);
// One line.
std::string to_json(const TargetResult& r, const ProbeOptions& o);

enum ExitCode : int {
  kAllMeasured = 0,
  kNotMeasured = 1,  // at least one target has no value
  kUsage = 2,
  kOnlyBound = 3,  // all have a value, but for at least one it is a lower bound only
};
// Of one result; of several the first of 1, 3, 0 that occurs.
ExitCode exit_code(const TargetResult& r, const ProbeOptions& o);
ExitCode worse(ExitCode a, ExitCode b);

}  // namespace fpmtud
