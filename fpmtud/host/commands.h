// SPDX-License-Identifier: BSD-3-Clause
// The subcommands.
#pragma once
#include <CLI/CLI.hpp>

namespace fpmtud {

void add_serve(CLI::App& app, int& exit_code);
void add_probe(CLI::App& app, int& exit_code);

}  // namespace fpmtud
