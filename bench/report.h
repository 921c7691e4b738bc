// SPDX-License-Identifier: BSD-3-Clause
// Results for people: tables in Markdown, plots by gnuplot.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bench {

std::string table_head();
// One case of `pxbench run`: medians, with smallest and largest, and the engine's ratio to its floor.
// `hz`: TSC of the machine that measured.
std::string table_row(const nlohmann::json& result, double hz);
std::string scale_head();
std::string scale_row(const nlohmann::json& result);  // of `pxbench scale`

// Prints the tables of all files, of pxbench or bench/caravans.py, and writes plots to the folder. Returns the exit code; throws
// std::runtime_error, naming file and fix, where a file isn't what `--json` writes.
int report(const std::vector<std::string>& files, const std::string& folder);

}  // namespace bench
