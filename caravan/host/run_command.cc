// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/write.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "caravan/host/commands.h"
#include "caravan/host/endpoint.h"

namespace caravan {
namespace {

using boost::asio::local::stream_protocol;

struct RunOptions {
  std::vector<std::string> gateways;
  EndpointConfig endpoint;
  bool no_outbound = false, no_batches = false;
  std::string socket = kStatusSocket;
};

// Whoever connects is told the status, as one line of JSON.
class StatusServer {
 public:
  StatusServer(boost::asio::io_context& io, const std::string& path, const Endpoint& endpoint)
      : path_(path), endpoint_(endpoint), acceptor_(io) {
    try {
      stream_protocol::socket other(io);
      boost::system::error_code error;
      other.connect(stream_protocol::endpoint(path), error);
      if (!error) throw std::runtime_error("another caravand answers there; --socket another path");
      unlink(path.c_str());
      acceptor_.open();
      acceptor_.bind(stream_protocol::endpoint(path));
      chmod(path.c_str(), 0660);
      acceptor_.listen();
    } catch (const std::exception& e) {
      throw std::runtime_error(fmt::format("status socket {}: {}", path, e.what()));
    }
    accept();
  }
  ~StatusServer() { unlink(path_.c_str()); }

 private:
  void accept() {
    acceptor_.async_accept([this](boost::system::error_code error, stream_protocol::socket s) {
      if (error) return;
      auto peer = std::make_shared<stream_protocol::socket>(std::move(s));
      auto text = std::make_shared<std::string>(endpoint_.status().dump() + "\n");
      boost::asio::async_write(*peer, boost::asio::buffer(*text),
                               [peer, text](boost::system::error_code, size_t) {});
      accept();
    });
  }
  std::string path_;
  const Endpoint& endpoint_;
  stream_protocol::acceptor acceptor_;
};

Address parse_gateway(const std::string& text) {
  Address a;
  if (inet_pton(AF_INET, text.c_str(), a.bytes.data()) == 1) return a;
  a.family = Family::kIpv6;
  if (inet_pton(AF_INET6, text.c_str(), a.bytes.data()) == 1) return a;
  throw std::runtime_error(fmt::format("--gateway {}: is no IPv4 or IPv6 address", text));
}

int run(RunOptions o) {
  try {
    for (const std::string& text : o.gateways) {
      const Address a = parse_gateway(text);
      for (const Address& other : o.endpoint.gateways)
        if (other.family == a.family)
          throw std::runtime_error(fmt::format(
              "--gateway {}: a second one of its family; one for IPv4, one for IPv6", text));
      o.endpoint.gateways.push_back(a);
    }
    o.endpoint.outbound = !o.no_outbound;
    o.endpoint.batches = !o.no_batches;
    boost::asio::io_context io(1);
    Endpoint endpoint(io, o.endpoint);
    StatusServer server(io, o.socket, endpoint);
    boost::asio::signal_set signals(io, SIGINT, SIGTERM);
    signals.async_wait([&endpoint](const boost::system::error_code&, int) { endpoint.stop(); });
    fmt::print("caravand: asks for caravans on {}\n", o.endpoint.tun);
    std::fflush(stdout);
    io.run();
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "caravand run: {}\n", e.what());
    return 2;
  }
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<RunOptions>();
  CLI::App* cmd = app.add_subcommand(
      "run",
      "Receives caravans, hands their datagrams to programs, and bundles what programs send "
      "to where only a default route leads. Takes root, or CAP_NET_ADMIN and CAP_NET_RAW.");
  cmd->add_option("--gateway", o->gateways,
                  "an address beyond the PacketExpress gateway, for each family to bundle: the way "
                  "there leads through "
                  "it, and it answers in that address's name")
      ->type_name("ADDR")
      ->required();
  cmd->add_option("--size", o->endpoint.size,
                  "largest caravan to take, in bytes of IP packet; 0: the interface's MTU")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  cmd->add_option("--port", o->endpoint.port, "the caravan port")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  cmd->add_option("--tun", o->endpoint.tun, "name of the TUN device")->capture_default_str();
  cmd->add_flag("--no-outbound", o->no_outbound, "receive caravans only; touch no rule or route");
  cmd->add_flag("--no-batches", o->no_batches,
                "one datagram a call to and from the kernel, as before Linux 6.2");
  cmd->add_option("--table", o->endpoint.steering.table,
                  "number of the routing table for outbound datagrams")
      ->check(CLI::Range(1u, 4294967295u))
      ->capture_default_str();
  cmd->add_option("--priority", o->endpoint.steering.priority,
                  "of the two routing rules: N and N + 1")
      ->check(CLI::Range(1u, 32764u))
      ->capture_default_str();
  cmd->add_option("--mark", o->endpoint.steering.mark,
                  "bit of the packet mark that tells packets of caravand's own")
      ->check([](const std::string& text) {
        const unsigned long v = std::strtoul(text.c_str(), nullptr, 0);
        return v != 0 && (v & (v - 1)) == 0 && v <= 0xffffffff
                   ? std::string()
                   : std::string("must be one bit of 32");
      })
      ->capture_default_str();
  cmd->add_option("--socket", o->socket, "where `caravand status` asks")
      ->type_name("FILE")
      ->capture_default_str();
  cmd->footer("Exit status: 0 ended by a signal, 2 can't run (one line says why).");
  cmd->callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace caravan
