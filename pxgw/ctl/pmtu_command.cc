// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/pmtu_command.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "pxgw/ctl/config.h"
#include "pxgw/ctl/control_server.h"
#include "pxgw/ctl/path_prober.h"
#include "pxgw/ctl/stats.h"

namespace pxgw {
namespace {

struct PmtuOptions {
  std::string control = kDefaultControl;
  std::string what, to;
  bool json = false;
  double wait = 25;  // seconds; a worker looks at all of its flows within 16
};

std::string table(const Json& answer) {
  const Json rows = answer.value("destinations", Json::array());
  if (rows.empty()) return "";
  std::string s = fmt::format("{:<40}{:>6}  {:<10}{:>7}  {}\n", "destination", "MTU", "state", "age", "measured");
  for (const Json& d : rows) {
    const Json& mtu = d.at("mtu");
    std::string how;
    if (d.contains("how")) {
      how = fmt::format("{} {}, {} round {}, {:.1f} ms", d.value("how", "") == "both" ? "fragment and" : "by",
                        d.value("how", "") == "both" ? "ladder" : d.value("how", ""), d.value("round_trips", 0),
                        d.value("round_trips", 0) == 1 ? "trip" : "trips", d.value("took_ms", 0.0));
      if (d.value("paths_differ", false)) how += ", the least of paths that differ by port";
      for (const Json& n : d.value("notes", Json::array())) how += ", " + n.get<std::string>();
    }
    s += fmt::format("{:<40}{:>6}  {:<10}{:>6.0f}s{}{}\n", d.value("destination", ""),
                     mtu.is_number() ? std::to_string(mtu.get<unsigned>()) : "-", d.value("state", ""),
                     d.value("age_s", 0.0), how.empty() ? "" : "  ", how);
  }
  return s;
}

void print(const PmtuOptions& o, const Json& answer) {
  if (o.json)
    fmt::print("{}\n", answer.dump(2));
  else if (const std::string s = table(answer); !s.empty())
    fmt::print("{}", s);
  else
    fmt::print("nothing is known{}{}\n", o.to.empty() ? "" : " of ", o.to);
}

// Whether something is still to come.
bool under_way(const Json& answer) {
  for (const Json& d : answer.value("destinations", Json::array())) {
    const std::string state = d.value("state", "");
    if (state == "awaited" || state == "queued" || state == "probing") return true;
  }
  return false;
}

bool any_confirmed(const Json& answer) {
  for (const Json& d : answer.value("destinations", Json::array()))
    if (d.value("state", "") == "confirmed") return true;
  return false;
}

int probe(const PmtuOptions& o) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(o.wait));
  Json answer = ask(o.control, {{"cmd", "pmtu"}, {"what", "probe"}, {"to", o.to}});
  while (under_way(answer) && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    answer = ask(o.control, {{"cmd", "pmtu"}, {"what", "show"}, {"to", o.to}});
  }
  print(o, answer);
  for (const Json& d : answer.value("destinations", Json::array()))
    if (d.value("state", "") == "awaited")
      fmt::print(stderr, "pxgw pmtu: no packet of a TCP connection to {} passed in {} s, so the way there isn't "
                         "known; open one and ask again\n", o.to, o.wait);
  return any_confirmed(answer) ? 0 : 1;
}

int pmtu_command(const PmtuOptions& o) {
  try {
    if (!o.to.empty()) parse_destination(o.to);
    if (o.what == "probe") return probe(o);
    Json request = {{"cmd", "pmtu"}, {"what", o.what}};
    if (!o.to.empty()) request["to"] = o.to;
    const Json answer = ask(o.control, request);
    if (o.what == "flush") {
      if (o.json) fmt::print("{}\n", answer.dump(2));
      return 0;
    }
    print(o, answer);
    return o.what == "show" && answer.value("destinations", Json::array()).empty() ? 1 : 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "pxgw pmtu: {}\n", e.what());
    return 2;
  }
}

}  // namespace

CLI::App* add_pmtu(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<PmtuOptions>();
  CLI::App* cmd = app.add_subcommand("pmtu", "Shows and measures path MTUs as a running gateway knows them.");
  cmd->require_subcommand(1);
  const auto add = [&](const char* name, const char* text, bool destination) {
    CLI::App* sub = cmd->add_subcommand(name, text);
    if (destination) sub->add_option("DEST", o->to, "IPv4 or IPv6 address of an outside host")->required();
    sub->add_option("--control", o->control, "its control socket")->type_name("PATH")->capture_default_str();
    sub->add_flag("--json", o->json, "print JSON");
    sub->callback([o, name, &exit_code] {
      o->what = name;
      exit_code = pmtu_command(*o);
    });
    return sub;
  };
  add("list", "All destinations that were measured, lowered or asked for.", false);
  add("show", "One destination; exit status 1 if nothing is known of it.", true);
  add("probe", "Measures the path to one destination now; exit status 1 if that gave no value.", true)
      ->add_option("--wait", o->wait, "seconds at most")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  add("flush", "Forgets all values: paths carry what is assumed until they are probed again.", false);
  cmd->footer("Exit status: 0 done, 1 no value, 2 no gateway answers there (one line says what to do).");
  return cmd;
}

}  // namespace pxgw
