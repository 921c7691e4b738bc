// SPDX-License-Identifier: BSD-3-Clause
// The responder on a Linux host: sockets around core/responder.h. One thread, that of the
// io_context.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <vector>

#include "fpmtud/core/responder.h"
#include "fpmtud/host/route.h"
#include "fpmtud/host/socket.h"

namespace fpmtud {

class Server {
 public:
  // Listens on each address. Throws std::runtime_error with one line that says what to do.
  Server(boost::asio::io_context& io, const ResponderConfig& config,
         const std::vector<Endpoint>& listen);
  ~Server();
  const ResponderCounters& counters() const { return responder_.counters(); }

 private:
  struct Listener {
    Listener(boost::asio::io_context& io, const Endpoint& at)
        : socket(Transport::kUdp, at.family, at), watch(io, socket.fd()) {}
    ~Listener() { watch.release(); }
    Socket socket;
    boost::asio::posix::stream_descriptor watch;
  };
  // A round that was asked for and is on its way.
  struct Sending {
    Listener* listener;
    Endpoint to;
    Local from;
    Request request;
    Round round;
    uint16_t link = 0;  // our own first link's MTU
    size_t next = 0;
  };

  void wait(Listener& l);
  void drain(Listener& l);
  void begin(Listener& l, const Datagram& d, const Request& r);
  void pump();
  SendResult send_next(Sending& s);

  Responder responder_;
  Routes routes_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::deque<Sending> sending_;
  boost::asio::steady_timer pump_timer_;
  std::vector<uint8_t> buffer_;
};

}  // namespace fpmtud
