// SPDX-License-Identifier: BSD-3-Clause
// pxgw: the command line. Each subcommand stands in pxgw/ctl.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

#include "pxgw/ctl/caravan_command.h"
#include "pxgw/ctl/pmtu_command.h"
#include "pxgw/ctl/run.h"
#include "pxgw/ctl/stats_command.h"
#include "pxgw/ctl/translate.h"

#ifndef PX_VERSION
#define PX_VERSION "(development)"
#endif

namespace {

// One line, whatever the library made of it.
int usage_error(const CLI::App& app, const CLI::ParseError& e, int argc, char** argv) {
  std::string text = e.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (app.get_subcommands().empty()) {
    std::string names;
    for (const CLI::App* c : app.get_subcommands({})) names += " " + c->get_name();
    const bool named = argc > 1;
    text = (named ? fmt::format("no command {}", argv[1]) : std::string("a command is missing")) +
           "; there are:" + names;
  }
  fmt::print(stderr, "pxgw: {}; see pxgw --help\n", text);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "PacketExpress: changes packet sizes between an inside network of jumbo frames and the "
      "Internet.",
      "pxgw");
  app.set_version_flag("--version", "pxgw " PX_VERSION);
  app.require_subcommand(1);
  int exit_code = 2;
  pxgw::add_translate(app, exit_code);
  pxgw::add_run(app, exit_code);
  pxgw::add_check(app, exit_code);
  pxgw::add_stats(app, exit_code);
  pxgw::add_pmtu(app, exit_code);
  pxgw::add_caravan(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return usage_error(app, e, argc, argv);
  }
  return exit_code;
}
