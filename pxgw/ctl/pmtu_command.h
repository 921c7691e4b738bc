// SPDX-License-Identifier: BSD-3-Clause
// `pxgw pmtu`: what a running gateway knows of paths.
#pragma once
#include <CLI/CLI.hpp>

namespace pxgw {
CLI::App* add_pmtu(CLI::App& app, int& exit_code);
}
