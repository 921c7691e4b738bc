// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/caravan_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "pxgw/ctl/config.h"
#include "pxgw/ctl/control_server.h"
#include "pxgw/ctl/stats.h"

namespace pxgw {
namespace {

struct CaravanOptions {
  std::string control = kDefaultControl;
  bool json = false;
};

int hosts_command(const CaravanOptions& o) {
  try {
    const Json answer = ask(o.control, {{"cmd", "caravan"}, {"what", "hosts"}});
    const Json hosts = answer.value("hosts", Json::array());
    if (o.json) {
      fmt::print("{}\n", answer.dump(2));
      return 0;
    }
    if (hosts.empty()) {
      fmt::print("no host takes caravans\n");
      return 0;
    }
    fmt::print("{:<40}{:>8}  {}\n", "host", "largest", "until");
    for (const Json& h : hosts) {
      const Json& left = h.at("expires_in_s");
      fmt::print("{:<40}{:>8}  {}\n", h.value("address", ""), h.value("largest", 0),
                 left.is_null() ? std::string("by configuration") : fmt::format("{:.1f} s from now", left.get<double>()));
    }
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "pxgw caravan: {}\n", e.what());
    return 2;
  }
}

}  // namespace

CLI::App* add_caravan(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<CaravanOptions>();
  CLI::App* cmd = app.add_subcommand("caravan", "Shows what a running gateway knows of caravans.");
  cmd->require_subcommand(1);
  CLI::App* hosts = cmd->add_subcommand("hosts", "The inside hosts that take caravans, and for how long.");
  hosts->add_option("--control", o->control, "its control socket")->type_name("PATH")->capture_default_str();
  hosts->add_flag("--json", o->json, "print JSON");
  hosts->callback([o, &exit_code] { exit_code = hosts_command(*o); });
  cmd->footer("Exit status: 0 done, 2 no gateway answers there (one line says what to do).");
  return cmd;
}

}  // namespace pxgw
