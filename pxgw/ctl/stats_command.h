// SPDX-License-Identifier: BSD-3-Clause
// `pxgw stats`: asks a running gateway by its control socket. Main thread.
#pragma once
#include <CLI/CLI.hpp>

namespace pxgw {

CLI::App* add_stats(CLI::App& app, int& exit_code);

}  // namespace pxgw
