// SPDX-License-Identifier: BSD-3-Clause
// fpmtud: the command line. Each subcommand stands in fpmtud/host.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

#include "fpmtud/host/commands.h"

#ifndef PX_VERSION
#define PX_VERSION "(development)"
#endif

int main(int argc, char** argv) {
  CLI::App app("F-PMTUD: path MTUs in one round trip, without ICMP. Docs: docs/fpmtud-protocol.md",
               "fpmtud");
  app.set_version_flag("--version", "fpmtud " PX_VERSION);
  app.require_subcommand(1);
  int exit_code = 2;
  fpmtud::add_serve(app, exit_code);
  fpmtud::add_probe(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::string text = e.what();  // one line, whatever the library made of it
    std::replace(text.begin(), text.end(), '\n', ' ');
    fmt::print(stderr, "fpmtud: {}; see fpmtud {}--help\n", text,
               app.get_subcommands().empty() ? "" : app.get_subcommands()[0]->get_name() + " ");
    return 2;
  }
  return exit_code;
}
