// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/run.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "pxgw/ctl/appliance.h"
#include "pxgw/ctl/config.h"
#include "pxgw/ctl/control_server.h"
#include "pxgw/ctl/log.h"
#include "pxgw/ctl/stats.h"

namespace pxgw {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Tells systemd how far we are; without it (no NOTIFY_SOCKET) does nothing.
void notify(const char* state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un to{};
  if (path == nullptr || std::string_view(path).size() >= sizeof to.sun_path) return;
  to.sun_family = AF_UNIX;
  std::string_view(path).copy(to.sun_path, sizeof to.sun_path - 1);
  const auto len =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::string_view(path).size());
  if (to.sun_path[0] == '@') to.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sendto(fd, state, std::string_view(state).size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&to),
         len);
  close(fd);
}

Config load_checked(const RunOptions& options, const SystemView& system) {
  Config c = load_config(options.config);
  if (!options.control.empty()) c.control = options.control;
  check_system(c, system);
  return c;
}

// Says in the log what operators want to hear of early, once in ten seconds at most.
class Watch {
 public:
  void look(const Counters& now) {
    if (++ticks_ % 10 != 0) return;
    warn(now.drop_no_buffer, before_.drop_no_buffer,
         "packets dropped for want of buffers; raise `buffers`");
    warn(now.drop_tx_full, before_.drop_tx_full, "packets dropped because a port didn't take them");
    warn(now.engine.flow_table_full, before_.engine.flow_table_full,
         "flows untranslated because the table is full; raise `flows`");
    const int64_t lost = unaccounted(now);
    if (lost != 0 && lost != lost_) log(Level::kError, "{} packets are unaccounted for", lost);
    lost_ = lost;
    before_ = now;
  }

 private:
  static void warn(uint64_t now, uint64_t before, const char* what) {
    if (now > before) log(Level::kWarning, "{} {}", now - before, what);
  }
  unsigned ticks_ = 0;
  Counters before_;
  int64_t lost_ = 0;
};

class Runner {
 public:
  Runner(const RunOptions& options, const Config& config)
      : options_(options),
        opened_(config),
        signals_(io_, SIGTERM, SIGINT, SIGHUP),
        timer_(io_),
        exchange_timer_(io_),
        server_(io_, config.control, [this](const Json& request) { return handle(request); }),
        appliance_(config) {}

  int run() {
    wait_for_signal();
    tick();
    exchange();
    fmt::print("pxgw: ready: {} {}, {} {}, control {}\n", opened_.pairs.size(),
               opened_.pairs.size() == 1 ? "pair" : "pairs", opened_.workers,
               opened_.workers == 1 ? "worker" : "workers", server_.path());
    std::fflush(stdout);
    notify("READY=1");
    try {
      io_.run();
    } catch (const std::exception& e) {
      log(Level::kError, "{}", e.what());
      failed_ = true;
    }
    notify("STOPPING=1");
    return finish();
  }

 private:
  void wait_for_signal() {
    signals_.async_wait([this](error_code error, int signal) {
      if (error) return;
      if (signal != SIGHUP) {
        log(Level::kInfo, "{}: draining", signal == SIGTERM ? "SIGTERM" : "SIGINT");
        return io_.stop();
      }
      reload();
      wait_for_signal();
    });
  }

  // All of the file or nothing of it.
  void reload() {
    try {
      SystemView system = this_system();
      system.free_hugepages = [] {
        return uint64_t{1};
      };  // those that are needed are in use already
      const Config next = load_checked(options_, system);
      const std::string key = needs_restart(opened_, next);
      if (!key.empty())
        throw ConfigError(fmt::format("{}: {}: this change needs a restart", options_.config, key));
      appliance_.apply(next);
      applying_ = true;
      tick();  // sooner than it would come
    } catch (const std::exception& e) {
      log(Level::kError, "nothing was applied: {}", e.what());
    }
  }

  void tick() {
    if (applying_ && appliance_.settled()) {
      applying_ = false;
      log(Level::kInfo, "{}: applied", options_.config);
    }
    watch_.look(appliance_.counters());
    appliance_.watch();
    timer_.expires_after(applying_ ? std::chrono::milliseconds(50)
                                   : std::chrono::milliseconds(1000));
    timer_.async_wait([this](error_code error) {
      if (!error) tick();
    });
  }

  void exchange() {
    exchange_timer_.expires_after(appliance_.exchange());
    exchange_timer_.async_wait([this](error_code error) {
      if (!error) exchange();
    });
  }

  Json handle(const Json& request) {
    const auto cmd = request.find("cmd");
    if (cmd != request.end() && *cmd == "pmtu") {
      Json answer = appliance_.pmtu(request);
      exchange();  // what was asked for begins at once
      return answer;
    }
    if (cmd != request.end() && *cmd == "caravan") return appliance_.caravan(request);
    if (cmd == request.end() || *cmd != "stats")
      return {{"error", "unknown command; known: stats, pmtu, caravan"}};
    Json j = appliance_.stats();
    j["pid"] = getpid();
    j["config"] = options_.config;
    return j;
  }

  int finish() {
    const uint32_t missing = appliance_.stop();
    const Counters c = appliance_.counters();
    const auto y = yield_pct(c);
    fmt::print("pxgw: stopped: {} packets received, {} sent, {} unaccounted for, yield {}\n",
               with_commas(c.in_pkts + c.out_pkts),
               with_commas(c.to_inside_pkts + c.to_outside_pkts), unaccounted(c),
               y ? fmt::format("{:.2f} %", *y) : "none");
    std::fflush(stdout);
    if (missing == 0) return failed_ ? 1 : 0;
    log(Level::kError, "{} buffers are not back in their pools", missing);
    return 1;
  }

  const RunOptions options_;
  const Config opened_;
  asio::io_context io_;
  asio::signal_set signals_;
  asio::steady_timer timer_, exchange_timer_;
  ControlServer server_;
  Appliance appliance_;
  Watch watch_;
  bool applying_ = false;
  bool failed_ = false;
};

// What goes wrong before traffic flows is one line and status 2.
template <typename F>
int guarded(const char* command, F f) {
  try {
    return f();
  } catch (const ConfigError& e) {
    fmt::print(stderr, "{}\n", e.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "pxgw {}: not enough memory; give fewer `flows` or `buffers`\n", command);
  } catch (const std::exception& e) {
    fmt::print(stderr, "pxgw {}: {}\n", command, e.what());
  }
  return 2;
}

const char* kind_text(PortConfig::Kind kind) {
  return kind == PortConfig::Kind::kKernel ? "kernel"
         : kind == PortConfig::Kind::kPci  ? "PCI"
                                           : "DPDK";
}

Json port_json(const PortConfig& p) {
  Json off = Json::array();
  for (const auto& [name, wish] : kOffloads)
    if (!(p.offloads.*wish)) off.push_back(name);
  return {{"device", p.device}, {"kind", kind_text(p.kind)}, {"mtu", p.mtu}, {"offloads_off", off}};
}

Json check_json(const Config& c, const BufferPlan& plan) {
  Json j = {{"ok", true}, {"file", c.file}};
  for (const PairConfig& p : c.pairs)
    j["pairs"].push_back({{"outside", port_json(p.outside)}, {"inside", port_json(p.inside)}});
  j["workers"] = c.workers;
  j["cpus"] = c.cpus;
  j["idle"] = c.idle == Config::Idle::kSleep ? "sleep" : "spin";
  j["hold_us"] = c.policy.hold_limit.count() / 1000;
  for (const auto& [name, list] : {std::pair{"include", &c.policy.include},
                                   {"exclude", &c.policy.exclude},
                                   {"jumbo", &c.policy.jumbo}}) {
    j[name] = Json::array();
    for (const Prefix& p : *list) j[name].push_back(to_string(p));
  }
  j["pmtu"] = {{"probe", c.policy.probing.probe}, {"answer", Json::array()}};
  for (const Prefix& p : c.policy.probing.answer) j["pmtu"]["answer"].push_back(to_string(p));
  for (size_t i = 0; i < c.pairs.size(); ++i)
    j["pmtu"]["assume"].push_back(c.policy_of(i).assumed_path());
  j["flows"] = c.flows;
  j["buffers"] = {{"small", plan.small}, {"large", plan.large}, {"memory_mb", plan.memory_mb}};
  j["control"] = c.control;
  return j;
}

std::string check_text(const Config& c, const BufferPlan& plan) {
  std::string cpus;
  for (const uint16_t cpu : c.cpus) cpus += fmt::format(" {}", cpu);
  std::string s = fmt::format("{}: ok\n", c.file);
  for (const PairConfig& p : c.pairs)
    s += fmt::format("  pair     outside {} ({}, MTU {})  <->  inside {} ({}, MTU {})\n",
                     p.outside.device, kind_text(p.outside.kind), p.outside.mtu, p.inside.device,
                     kind_text(p.inside.kind), p.inside.mtu);
  s += fmt::format("  workers  {}, {} when idle, {}\n", c.workers,
                   c.idle == Config::Idle::kSleep ? "asleep" : "spinning",
                   c.cpus.empty() ? std::string("not pinned") : "on CPUs" + cpus);
  s += fmt::format("  hold     at most {} us\n", c.policy.hold_limit.count() / 1000);
  for (const auto& [name, list] : {std::pair{"include", &c.policy.include},
                                   {"exclude", &c.policy.exclude},
                                   {"jumbo", &c.policy.jumbo}}) {
    if (list->empty()) continue;
    s += fmt::format("  {:<8}", name);
    for (const Prefix& p : *list) s += " " + to_string(p);
    s += '\n';
  }
  if (c.policy.probing.probe) {
    s += "  paths    probed; assumed to carry";
    for (size_t i = 0; i < c.pairs.size(); ++i)
      s += fmt::format("{} {} B", i == 0 ? "" : ",", c.policy_of(i).assumed_path());
    s += '\n';
  }
  s += fmt::format("  flows    {} at most\n  {}\n  control  {}\n", with_commas(c.flows), plan.text,
                   c.control);
  return s;
}

}  // namespace

int run_command(const RunOptions& options) {
  return guarded("run", [&] {
    signal(SIGPIPE, SIG_IGN);
    const Config config = load_checked(options, this_system());
    return Runner(options, config).run();
  });
}

int check_command(const std::string& path, bool json) {
  const auto check = [&] {
    const Config c = load_config(path);
    check_system(c, this_system());
    const BufferPlan plan = plan_buffers(c);
    fmt::print("{}", json ? check_json(c, plan).dump(2) + '\n' : check_text(c, plan));
    return 0;
  };
  if (!json) return guarded("check", check);
  try {
    return check();
  } catch (const std::exception& e) {
    fmt::print("{}\n", Json({{"ok", false}, {"error", e.what()}}).dump(2));
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}

CLI::App* add_run(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<RunOptions>();
  CLI::App* cmd =
      app.add_subcommand("run",
                         "Runs the gateway as a bump in the wire between pairs of ports, until "
                         "SIGTERM or SIGINT, which drain\n"
                         "it. SIGHUP rereads CONFIG and applies it, or refuses it whole.");
  cmd->add_option("CONFIG", o->config, "configuration (YAML); conf/ has examples with every key")
      ->required();
  cmd->add_option("--control", o->control, "path of the control socket, instead of that in CONFIG")
      ->type_name("PATH");
  cmd->footer(
      "Exit status: 0 stopped and drained, 1 stopped with a fault, 2 refused (one line says why).");
  cmd->callback([o, &exit_code] { exit_code = run_command(*o); });
  return cmd;
}

CLI::App* add_check(CLI::App& app, int& exit_code) {
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* cmd = app.add_subcommand("check",
                                     "Checks a configuration as far as that is possible without "
                                     "taking ports over, and says what would be run.");
  cmd->add_option("CONFIG", *path, "configuration (YAML)")->required();
  cmd->add_flag("--json", *json, "print JSON");
  cmd->footer("Exit status: 0 can be run, 2 can't (one line says why).");
  cmd->callback([path, json, &exit_code] { exit_code = check_command(*path, *json); });
  return cmd;
}

}  // namespace pxgw
