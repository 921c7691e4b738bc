// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "fpmtud/host/commands.h"
#include "fpmtud/host/key_file.h"
#include "fpmtud/host/nonce.h"
#include "fpmtud/host/server.h"

namespace fpmtud {
namespace {

struct ServeOptions {
  uint16_t port = kDefaultPort;
  std::vector<std::string> listen;
  std::string key_file;
  bool no_reverse = false;
  uint64_t source_rate = 8, total_rate = 128;  // MB/s
};

std::vector<Endpoint> endpoints(const ServeOptions& o) {
  std::vector<Endpoint> all;
  for (const std::string& text : o.listen) {
    auto e = parse_address(text);
    if (!e) throw std::runtime_error(fmt::format("--listen {}: is no IPv4 or IPv6 address", text));
    all.push_back(*e);
  }
  if (all.empty()) {
    all.push_back({.family = Family::kIpv4});
    // A host without IPv6 isn't to be told to switch it on.
    try {
      Socket(Transport::kUdp, Family::kIpv6);
      all.push_back({.family = Family::kIpv6});
    } catch (const std::exception&) {
    }
  }
  for (Endpoint& e : all) e.port = o.port;
  return all;
}

int serve(const ServeOptions& o) {
  try {
    ResponderConfig config;
    if (!o.key_file.empty()) config.key = read_key(o.key_file);
    config.reverse = !o.no_reverse;
    config.secret = random_nonce();
    config.per_source = {o.source_rate * 1'000'000, o.source_rate * 2'000'000};
    config.total = {o.total_rate * 1'000'000, o.total_rate * 2'000'000};
    boost::asio::io_context io(1);
    const std::vector<Endpoint> at = endpoints(o);
    Server server(io, config, at);
    boost::asio::signal_set signals(io, SIGINT, SIGTERM);
    signals.async_wait([&io](const boost::system::error_code&, int) { io.stop(); });
    for (const Endpoint& e : at) fmt::print("answers on {} port {}\n", to_text(e), e.port);
    std::fflush(stdout);
    io.run();
    const ResponderCounters& c = server.counters();
    fmt::print(
        "probes {} reports {} requests {} rounds {} drop_not_ours {} drop_unsigned {} drop_limit "
        "{} "
        "drop_cookie {} drop_refused {}\n",
        c.probes, c.reports, c.requests, c.rounds, c.drop_not_ours, c.drop_unsigned, c.drop_limit,
        c.drop_cookie, c.drop_refused);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "fpmtud serve: {}\n", e.what());
    return 2;
  }
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<ServeOptions>();
  CLI::App* cmd = app.add_subcommand(
      "serve",
      "Answers probes, so that others can measure the path to this host. Needs no privileges.");
  cmd->add_option("--port", o->port, "UDP port")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  cmd->add_option("--listen", o->listen, "addresses to answer on; all, if none is given")
      ->type_name("ADDR");
  cmd->add_option("--key-file", o->key_file,
                  "answer only who signs with this key (16 bytes and more)")
      ->type_name("FILE");
  cmd->add_flag("--no-reverse", o->no_reverse, "send no probes to those who ask for the way back");
  cmd->add_option("--source-rate", o->source_rate,
                  "MB of probes a second from one address (IPv6: /64); twice that at once")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  cmd->add_option("--total-rate", o->total_rate, "the same over all")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  cmd->footer("Exit status: 0 ended by a signal, 2 can't run (one line says why).");
  cmd->callback([o, &exit_code] { exit_code = serve(*o); });
}

}  // namespace fpmtud
