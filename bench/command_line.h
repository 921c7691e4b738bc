// SPDX-License-Identifier: BSD-3-Clause
// The command line of the programs that measure.
#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

namespace bench {

// The exit code, where the program ends here: after --help, or one line about what is wrong.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::string text = e.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    fmt::print(stderr, "{0}: {1}; see {0} --help\n", app.get_name(), text);
    return 2;
  }
}

}  // namespace bench
