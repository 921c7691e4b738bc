// SPDX-License-Identifier: BSD-3-Clause
// The subcommands of caravand. Each sets the exit code when it has been run.
#pragma once
#include <CLI/CLI.hpp>

namespace caravan {

inline constexpr const char* kStatusSocket = "/run/caravand.sock";

void add_run(CLI::App& app, int& exit_code);
void add_status(CLI::App& app, int& exit_code);

}  // namespace caravan
