// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fpmtud/host/commands.h"
#include "fpmtud/host/key_file.h"
#include "fpmtud/host/output.h"

namespace fpmtud {
namespace {

constexpr size_t kMaxWatched = 1000;

struct CommandOptions {
  std::vector<std::string> hosts;
  std::string targets_file, key_file;
  bool json = false, only4 = false, only6 = false;
  double watch_s = 10, rate_mbit = 100;
  uint16_t flows = 0;  // 0: as the number of hosts suggests
  ProbeOptions probe;
};

// The names on the command line, then the file's, one a line; # begins a comment.
class Names {
 public:
  Names(const std::vector<std::string>& hosts, const std::string& file) : hosts_(hosts) {
    if (file.empty()) return;
    if (file == "-") {
      in_ = &std::cin;
      return;
    }
    file_.open(file);
    if (!file_)
      throw std::runtime_error(fmt::format("--targets {}: {}", file, std::strerror(errno)));
    in_ = &file_;
  }
  std::optional<std::string> next() {
    if (at_ < hosts_.size()) return hosts_[at_++];
    std::string line;
    while (in_ != nullptr && std::getline(*in_, line)) {
      line.resize(std::min(line.find('#'), line.size()));
      const auto begin = line.find_first_not_of(" \t\r");
      if (begin == std::string::npos) continue;
      const auto end = line.find_first_of(" \t\r", begin);
      return line.substr(begin, end - begin);
    }
    return {};
  }

 private:
  const std::vector<std::string>& hosts_;
  size_t at_ = 0;
  std::ifstream file_;
  std::istream* in_ = nullptr;
};

// Prints results, only what changed where it watches, and keeps the exit status.
class Printer {
 public:
  Printer(const CommandOptions& o) : o_(o) {}
  void print(const TargetResult& r) {
    ++done_;
    if (r.forward.finding.mtu != 0) ++measured_;
    const ExitCode code = exit_code(r, o_.probe);
    if (!o_.probe.watch) {
      code_ = worse(code_, code);
      write(o_.json ? to_json(r, o_.probe) : to_text(r, o_.probe));
      return;
    }
    const std::string name = r.target.name + to_text(r.target.at);
    const auto before = last_.find(name);
    const Values now{r.forward.finding.mtu, r.reverse ? r.reverse->finding.mtu : uint16_t{0},
                     r.paths.differ()};
    const bool first = before == last_.end();
    if (!first && before->second.values == now) return;
    if (!first && !o_.json)
      write(fmt::format("{} was {}: ", to_text(r.target.at), value(before->second.values.mtu)));
    write(o_.json ? to_json(r, o_.probe) : to_text(r, o_.probe));
    last_[name] = {now, code};
  }
  int code() const {
    ExitCode c = code_;
    for (const auto& [name, l] : last_) c = worse(c, l.code);
    return c;
  }
  size_t done() const { return done_; }
  size_t measured() const { return measured_; }

 private:
  struct Values {
    uint16_t mtu, reverse;
    bool differ;
    bool operator==(const Values&) const = default;
  };
  struct Last {
    Values values;
    ExitCode code;
  };
  static std::string value(uint16_t mtu) { return mtu == 0 ? "unknown" : fmt::format("{}", mtu); }
  static void write(const std::string& s) {
    fmt::print("{}", s);
    std::fflush(stdout);
  }
  const CommandOptions& o_;
  ExitCode code_ = kAllMeasured;
  std::map<std::string, Last> last_;
  size_t done_ = 0, measured_ = 0;
};

// A line a second on stderr, in place on a terminal.
class Progress {
 public:
  Progress(boost::asio::io_context& io, std::function<std::string()> text)
      : timer_(io), text_(std::move(text)), terminal_(isatty(STDERR_FILENO) != 0) {
    wait();
  }
  void end() {
    timer_.cancel();
    if (terminal_ && shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  void wait() {
    timer_.expires_after(std::chrono::seconds(1));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      shown_ = true;
      fmt::print(stderr, "{}{}{}", terminal_ ? "\r\033[K" : "", text_(), terminal_ ? "" : "\n");
      std::fflush(stderr);
      wait();
    });
  }
  boost::asio::steady_timer timer_;
  std::function<std::string()> text_;
  bool terminal_, shown_ = false;
};

int probe(CommandOptions& o) {
  try {
    if (o.hosts.empty() && o.targets_file.empty())
      throw std::runtime_error("no host is given; name some, or a file of them by --targets");
    if (o.only4) o.probe.family = Family::kIpv4;
    if (o.only6) o.probe.family = Family::kIpv6;
    if (!o.key_file.empty()) o.probe.key = read_key(o.key_file);
    // One where a port's bytes are many: of each of many hosts, or to try every size, which from four ports is more
    // than a responder allows.
    const bool one = !o.targets_file.empty() || o.probe.exact;
    o.probe.flows = o.flows != 0 ? o.flows : one ? uint16_t{1} : kDefaultPorts;
    o.probe.rate = static_cast<uint64_t>(o.rate_mbit * 1e6 / 8);
    // Watched targets stay under way.
    if (o.probe.watch) o.probe.parallel = kMaxWatched;
    Names names(o.hosts, o.targets_file);
    Printer printer(o);
    boost::asio::io_context io(1);
    boost::asio::signal_set signals(io, SIGINT, SIGTERM);
    std::unique_ptr<Progress> progress;
    bool broken_off = false;
    std::unique_ptr<Prober> prober;
    const auto over = [&] {
      signals.cancel();
      if (progress) progress->end();
    };
    prober = std::make_unique<Prober>(
        io, o.probe, [&] { return names.next(); }, [&](const TargetResult& r) { printer.print(r); },
        over);
    signals.async_wait([&](const boost::system::error_code& error, int) {
      if (error) return;
      broken_off = !o.probe.watch.has_value();
      prober->stop();
      over();
    });
    if (!o.targets_file.empty() && !o.probe.watch)
      progress = std::make_unique<Progress>(io, [&] {
        return fmt::format("{} done, {} measured, {} under way", printer.done(), printer.measured(),
                           prober->under_way());
      });
    io.run();
    return broken_off ? int{kNotMeasured} : printer.code();
  } catch (const std::exception& e) {
    fmt::print(stderr, "fpmtud probe: {}\n", e.what());
    return kUsage;
  }
}

}  // namespace

void add_probe(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<CommandOptions>();
  CLI::App* cmd = app.add_subcommand(
      "probe", "Measures the path MTU to hosts that run `fpmtud serve`, in one round trip.");
  cmd->add_option("hosts", o->hosts, "names or addresses; each family that a name has is measured")
      ->type_name("HOST");
  cmd->add_option("--targets", o->targets_file, "a file of hosts, one a line; - reads stdin")
      ->type_name("FILE");
  cmd->add_option("--port", o->probe.port, "UDP port of the responders")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  cmd->add_option("--max", o->probe.max,
                  "the largest size to try, as far as the interface takes it")
      ->check(CLI::Range(1280, 65535))
      ->capture_default_str();
  cmd->add_flag("-4", o->only4, "IPv4 alone");
  cmd->add_flag("-6", o->only6, "IPv6 alone")->excludes("-4");
  cmd->add_flag("--exact", o->probe.exact, "to the byte, in one more round trip");
  cmd->add_flag("--both", o->probe.both, "the way back as well");
  cmd->add_option("--flows", o->flows,
                  "source ports to try at once: where links of different MTU share the load, the "
                  "least counts; default 4, with --targets or --exact 1")
      ->check(CLI::Range(1, 64));
  auto* watch = cmd->add_option("--watch", o->watch_s,
                                "again and again, printing what changes; every 10 s, or as given")
                    ->expected(0, 1)
                    ->check(CLI::Range(0.1, 86400.0))
                    ->type_name("[SECONDS]");
  auto* set =
      cmd->add_flag("--set-route", o->probe.set_route,
                    "give the host a route with this MTU, which Linux TCP then uses (root)");
  cmd->add_flag("--unset-route", o->probe.unset_route, "remove that route; nothing is measured")
      ->excludes(set);
  cmd->add_flag("--fallback", o->probe.fallback,
                "hosts without a responder: by ICMP echo and what ICMP errors say");
  cmd->add_option("--key-file", o->key_file,
                  "sign with this key, believe only what is signed with it")
      ->type_name("FILE");
  cmd->add_option("--parallel", o->probe.parallel, "hosts under way at a time")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  cmd->add_option("--rate", o->rate_mbit, "Mb/s of probes over all, beyond a burst of 4 MiB")
      ->check(CLI::Range(0.1, 100000.0))
      ->capture_default_str();
  cmd->add_flag("--json", o->json, "one object a line");
  cmd->footer(
      "Exit status: 0 all measured, 1 at least one not (no answer, no route), 2 wrong usage,\n"
      "3 all have a value, but one at least is a lower bound only (a path that loses too much).");
  cmd->callback([o, watch, &exit_code] {
    if (watch->count() > 0)
      o->probe.watch = std::chrono::duration_cast<Time>(std::chrono::duration<double>(o->watch_s));
    exit_code = probe(*o);
  });
}

}  // namespace fpmtud
