// SPDX-License-Identifier: BSD-3-Clause
// `pxgw run` and `pxgw check`. Main thread.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace pxgw {

struct RunOptions {
  std::string config;
  std::string control;  // overrides that of the configuration; empty: doesn't
};

// Runs until SIGTERM or SIGINT. Returns the exit status.
int run_command(const RunOptions& options);
// Checks the file as far as that is possible without taking ports over, and says what would be run.
int check_command(const std::string& config, bool json);

CLI::App* add_run(CLI::App& app, int& exit_code);
CLI::App* add_check(CLI::App& app, int& exit_code);

}  // namespace pxgw
