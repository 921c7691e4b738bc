// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/stats_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "pxgw/ctl/config.h"
#include "pxgw/ctl/control_server.h"
#include "pxgw/ctl/stats.h"

namespace pxgw {
namespace {

struct StatsOptions {
  std::string control = kDefaultControl;
  std::string what;  // empty: all
  bool json = false, all = false, describe = false;
  double watch = 0;  // seconds; 0: once
};

double number(const Json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number() ? it->get<double>() : 0;
}

std::string duration_text(double seconds) {
  const auto s = static_cast<uint64_t>(seconds);
  if (s >= 86400) return fmt::format("{} d {:02}:{:02}", s / 86400, s / 3600 % 24, s / 60 % 60);
  return fmt::format("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

// Ports and workers: what the counters don't have. Reads what is there, whatever version wrote it.
std::string rest_of(const Json& now, const Json* before, double seconds, bool all) {
  std::string s = "\nPorts\n";
  for (const Json& p : now.value("ports", Json::array())) {
    s += fmt::format("  {:<8} {:<16}", p.value("side", ""), p.value("name", ""));
    for (const auto& [key, value] : p.items())
      if (key != "queues" && value.is_number_unsigned() && (all || value != 0))
        s += fmt::format(" {} {}", key, with_commas(value.get<uint64_t>()));
    s += '\n';
  }
  s += "\nWorkers\n";
  const Json workers = now.value("workers", Json::array());
  for (size_t i = 0; i < workers.size(); ++i) {
    double busy = number(workers[i], "busy_pct");
    // In watch mode: since the last time.
    if (before != nullptr && seconds > 0) {
      const Json old = before->value("workers", Json::array());
      if (i < old.size())
        busy = std::max(
            0.0, (number(workers[i], "busy_ns") - number(old[i], "busy_ns")) / seconds * 1e-7);
    }
    const double stalls = number(workers[i], "stalls");
    s += fmt::format("  queue {:<3} busy {:.1f} %{}{}\n", number(workers[i], "queue"), busy,
                     stalls > 0 ? fmt::format(", stood still {} times", stalls) : "",
                     workers[i].value("stalled", false) ? ", stands still now" : "");
  }
  s += fmt::format("\nUp {}, {} buffers in use, configuration {} (change {})\n",
                   duration_text(number(now, "uptime_s")),
                   with_commas(static_cast<uint64_t>(number(now, "buffers_in_use"))),
                   now.value("config", ""), number(now, "policy_generation"));
  return s;
}

std::string state_line(const std::string& name, int width, const Json& o) {
  return fmt::format("  {:<{}}{:<10}{}\n", name, width, o.value("used", false) ? "in use" : "not used",
                     o.value("how", ""));
}

// `pxgw stats ports`: what each port can do and does, and its own counters.
std::string ports_text(const Json& now, bool all) {
  std::string s;
  for (const Json& p : now.value("ports", Json::array())) {
    s += fmt::format("{}{} {}, driver {}, {} {}{}\n", s.empty() ? "" : "\n", p.value("side", ""),
                     p.value("name", ""), p.value("driver", "?"), p.value("queues", 1),
                     p.value("queues", 1) == 1 ? "queue" : "queues",
                     p.value("tx_stalled", false) ? "; SENDS NOTHING" : "");
    const Json offloads = p.value("offloads", Json::object());
    for (const auto& [name, o] : offloads.items())
      s += state_line(name, 15, o);
    for (const auto& [key, value] : p.items())
      if (key != "queues" && value.is_number_unsigned() && (all || value != 0))
        s += fmt::format("  {:<15}{:>20}\n", key, with_commas(value.get<uint64_t>()));
  }
  return s;
}

// `pxgw stats flows`: the rules by which NICs steer.
std::string flows_text(const Json& now) {
  std::string s;
  for (const Json& p : now.value("ports", Json::array())) {
    s += fmt::format("{}{} {}, driver {}\n", s.empty() ? "" : "\n", p.value("side", ""), p.value("name", ""),
                     p.value("driver", "?"));
    const Json rules = p.value("flow_rules", Json::array());
    if (rules.empty()) s += "  none: a Linux interface shares traffic by the kernel's flow hash\n";
    for (const Json& r : rules)
      s += state_line(r.value("name", ""), 24, r);
  }
  return s;
}

Json flows_json(const Json& now) {
  Json out = Json::array();
  for (const Json& p : now.value("ports", Json::array()))
    out.push_back({{"name", p.value("name", "")}, {"side", p.value("side", "")}, {"driver", p.value("driver", "")},
                   {"flow_rules", p.value("flow_rules", Json::array())}});
  return out;
}

Json selected(const Json& now, const std::string& what) {
  if (what == "flows") return flows_json(now);
  return what.empty() ? now : now.value(what, Json());
}

// What has a text of its own; empty: the summary of counters is wanted.
std::string text_of(const Json& now, const StatsOptions& o) {
  return o.what == "ports" ? ports_text(now, o.all) : o.what == "flows" ? flows_text(now) : "";
}

int watch(const StatsOptions& o) {
  Json before;
  for (auto next = std::chrono::steady_clock::now();;) {
    const Json now = ask(o.control, {{"cmd", "stats"}});
    if (o.json) {
      fmt::print("{}\n", selected(now, o.what).dump());
    } else if (!o.what.empty()) {
      fmt::print("{}{}\n", isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "", text_of(now, o));
    } else {
      const Counters c = counters_from_json(now);
      const bool first = before.is_null();
      const Counters old = first ? Counters{} : counters_from_json(before);
      const double seconds = first ? 0 : number(now, "uptime_s") - number(before, "uptime_s");
      // Clears a terminal; a file gets one table after another.
      fmt::print("{}{}{}\n", isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "",
                 summary(c, {.all = o.all, .before = first ? nullptr : &old, .seconds = seconds}),
                 rest_of(now, first ? nullptr : &before, seconds, o.all));
      before = now;
    }
    if (std::fflush(stdout) != 0) return 0;  // whoever read it has gone
    next += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(o.watch));
    std::this_thread::sleep_until(next);
  }
}

int stats_command(const StatsOptions& o) {
  try {
    if (o.describe) {
      fmt::print("{}", describe_counters());
      return 0;
    }
    if (o.watch > 0) return watch(o);
    const Json now = ask(o.control, {{"cmd", "stats"}});
    if (o.json)
      fmt::print("{}\n", selected(now, o.what).dump(2));
    else if (!o.what.empty())
      fmt::print("{}", text_of(now, o));
    else
      fmt::print("{}{}", summary(counters_from_json(now), {.all = o.all}),
                 rest_of(now, nullptr, 0, o.all));
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "pxgw stats: {}\n", e.what());
    return 2;
  }
}

}  // namespace

CLI::App* add_stats(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<StatsOptions>();
  CLI::App* cmd = app.add_subcommand(
      "stats", "Shows the counters of a running gateway; those at zero are left out.");
  cmd->add_option("WHAT", o->what,
                  "ports: what each port can do, in use or why not, and its counters; flows: what each NIC steers "
                  "by rules; all if left out")
      ->check(CLI::IsMember({"ports", "flows"}));
  cmd->add_option("--control", o->control, "its control socket")
      ->type_name("PATH")
      ->capture_default_str();
  cmd->add_flag("--json", o->json, "print JSON: every counter by its name");
  cmd->add_flag("--all", o->all, "counters at zero, too");
  auto seconds = std::make_shared<double>(1);
  CLI::Option* watch_option =
      cmd->add_option("--watch", *seconds, "again and again, with rates; every second, or as given")
          ->expected(0, 1)
          ->check(CLI::Range(0.1, 3600.0))
          ->type_name("[SECONDS]");
  cmd->add_flag("--describe", o->describe,
                "print what each counter counts (docs/counters.md) and end");
  cmd->footer("Exit status: 0 shown, 2 no gateway answers there (one line says what to do).");
  cmd->callback([o, seconds, watch_option, &exit_code] {
    if (watch_option->count() > 0) o->watch = *seconds;
    exit_code = stats_command(*o);
  });
  return cmd;
}

}  // namespace pxgw
