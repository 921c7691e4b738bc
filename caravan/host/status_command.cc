// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "caravan/host/commands.h"

namespace caravan {
namespace {

using Json = nlohmann::json;

std::string ask(const std::string& path) {
  boost::asio::io_context io;
  boost::asio::local::stream_protocol::socket s(io);
  s.connect(boost::asio::local::stream_protocol::endpoint(path));
  std::string text;
  boost::system::error_code error;
  boost::asio::read(s, boost::asio::dynamic_buffer(text), error);
  return text;
}

void show(const Json& j) {
  for (const Json& f : j["families"]) {
    const bool active = f["active"];
    fmt::print(
        "IPv{}  {}\n", f["family"].get<int>(),
        f["source"].is_null() ? fmt::format("no way to {}", f["gateway"].get<std::string>())
        : !active
            ? fmt::format(
                  "{}: {}, traffic goes plain", f["gateway"].get<std::string>(),
                  f.value("full", false) ? "the gateway has no room for another host" : "no answer")
            : fmt::format("{}: caravans of up to {} B, as {}{}", f["gateway"].get<std::string>(),
                          f["size"].get<unsigned>(), f["source"].get<std::string>(),
                          f["steering"].get<bool>() ? "" : "; outbound goes plain"));
  }
  const Json& c = j["counters"];
  const auto n = [&](const char* name) { return c[name].get<uint64_t>(); };
  fmt::print(
      "received  {} datagrams in {} caravans; {} of them handed over {} at a time on average\n",
      n("datagrams_in"), n("caravans_in"), n("grouped_datagrams"),
      n("groups_to_programs") == 0 ? 0 : n("grouped_datagrams") / n("groups_to_programs"));
  fmt::print("sent      {} datagrams in {} caravans, {} plain\n", n("datagrams_out"),
             n("caravans_out"), n("plain_out"));
  for (const auto& [name, value] : c.items())
    if ((name.starts_with("drop_") || name == "damaged") && value.get<uint64_t>() != 0)
      fmt::print("{}  {}\n", name, value.get<uint64_t>());
  if (!j["batches"].get<bool>())
    fmt::print("datagrams pass the kernel one by one: --no-batches, or older than Linux 6.2\n");
}

int status(const std::string& path, bool json) {
  Json j;
  try {
    j = Json::parse(ask(path));
  } catch (const std::exception&) {
    fmt::print(stderr, "caravand status: nobody answers at {}; is caravand running, as whom?\n",
               path);
    return 2;
  }
  if (json) {
    fmt::print("{}\n", j.dump());
  } else {
    show(j);
  }
  for (const Json& f : j["families"])
    if (f["active"].get<bool>()) return 0;
  return 1;
}

}  // namespace

void add_status(CLI::App& app, int& exit_code) {
  struct Options {
    std::string socket = kStatusSocket;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* cmd = app.add_subcommand("status", "What a running caravand does, and has done.");
  cmd->add_flag("--json", o->json, "as one line of JSON");
  cmd->add_option("--socket", o->socket, "where it listens")
      ->type_name("FILE")
      ->capture_default_str();
  cmd->footer(
      "Exit status: 0 a gateway sends and takes caravans, 1 none answers (traffic goes plain), 2 "
      "caravand doesn't run.");
  cmd->callback([o, &exit_code] { exit_code = status(o->socket, o->json); });
}

}  // namespace caravan
