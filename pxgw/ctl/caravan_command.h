// SPDX-License-Identifier: BSD-3-Clause
// `pxgw caravan`: the hosts to which a running gateway sends caravans.
#pragma once
#include <CLI/CLI.hpp>

namespace pxgw {

CLI::App* add_caravan(CLI::App& app, int& exit_code);

}  // namespace pxgw
