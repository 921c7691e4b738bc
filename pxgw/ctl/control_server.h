// SPDX-License-Identifier: BSD-3-Clause
// The local socket of a running gateway: one JSON object a line in, one out. Everything about it is
// bounded: connections, the size of a request, the time that one may take. Main thread.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "pxgw/ctl/stats.h"

namespace pxgw {

class ControlServer {
 public:
  // Answers a request; an exception's text goes to the client as {"error": text}.
  using Handler = std::function<Json(const Json& request)>;

  // Listens on `path`, mode 0600; makes its directory (0750) if that isn't there, and takes the
  // place of a socket that nobody serves. Throws std::runtime_error: one line that names the path.
  ControlServer(boost::asio::io_context& io, std::string path, Handler handler);
  ~ControlServer();  // removes the socket, if it is still the one that was made here
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  const std::string& path() const { return path_; }

 private:
  class Session;
  void listen();
  void accept();

  boost::asio::local::stream_protocol::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  std::string path_;
  Handler handler_;
  std::shared_ptr<int> open_ = std::make_shared<int>(0);  // connections
  uint64_t inode_ = 0;
};

// Sends one request to the gateway that serves `path` and returns its answer. Throws
// std::runtime_error: one line that says what to do.
Json ask(const std::string& path, const Json& request);

}  // namespace pxgw
