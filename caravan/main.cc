// SPDX-License-Identifier: BSD-3-Clause
// caravand: the command line. Each subcommand stands in caravan/host.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

#include "caravan/host/commands.h"

#ifndef PX_VERSION
#define PX_VERSION "(development)"
#endif

int main(int argc, char** argv) {
  CLI::App app(
      "PX-caravan on a host: several UDP datagrams in one jumbo. Docs: docs/caravan-format.md",
      "caravand");
  app.set_version_flag("--version", "caravand " PX_VERSION);
  app.require_subcommand(1);
  int exit_code = 2;
  caravan::add_run(app, exit_code);
  caravan::add_status(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::string text = e.what();  // one line, whatever the library made of it
    std::replace(text.begin(), text.end(), '\n', ' ');
    fmt::print(stderr, "caravand: {}; see caravand {}--help\n", text,
               app.get_subcommands().empty() ? "" : app.get_subcommands()[0]->get_name() + " ");
    return 2;
  }
  return exit_code;
}
