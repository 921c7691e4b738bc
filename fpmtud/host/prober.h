// SPDX-License-Identifier: BSD-3-Clause
// Measures the path MTU to many hosts at once: sockets, timers and routes around core/session.h.
// Memory follows `parallel`, not the number of targets. One thread, that of the io_context.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fpmtud/core/limiter.h"
#include "fpmtud/core/port_paths.h"
#include "fpmtud/host/route.h"
#include "fpmtud/host/socket.h"

namespace fpmtud {

struct ProbeOptions {
  uint16_t port = kDefaultPort;
  uint16_t max = 9000;
  std::optional<Family> family;  // none: each that the name has
  std::optional<Key> key;
  bool both = false, exact = false, fallback = false;
  bool set_route = false, unset_route = false;
  uint16_t flows = kDefaultPorts;  // source ports, whose packets may take different links
  size_t parallel = 256;           // targets under way
  uint64_t rate = 12'500'000;      // bytes a second, over all targets
  std::optional<Time> watch;       // again and again, with this pause
};

struct Target {
  std::string name;
  Endpoint at;
};

struct TargetResult {
  Target target;
  std::string error;  // the name can't be resolved, there is no route: nothing was measured
  PathMtu forward;    // the least of all source ports
  PortPaths paths;    // of each
  std::optional<PathMtu> reverse;
  std::string route;  // what --set-route or --unset-route did
  bool route_failed = false;
};

class Prober {
 public:
  // `next` gives the next name or address, nothing at the end. `sink` gets each result; with
  // `watch` again for each measurement. `finished` is called when nothing is left to do. Throws
  // std::runtime_error.
  Prober(boost::asio::io_context& io, const ProbeOptions& options,
         std::function<std::optional<std::string>()> next,
         std::function<void(const TargetResult&)> sink, std::function<void()> finished);
  ~Prober();
  size_t under_way() const { return jobs_.size() + resolving_; }
  // Ends without waiting for what is under way.
  void stop();

 private:
  struct Channel;
  struct Job;
  // One session on its way.
  struct Flight {
    Job* job = nullptr;
    Channel* channel = nullptr;
    Nonce nonce{};
    bool reverse = false;
    Session session;
    size_t next = 0;  // packet of the round to send
    bool queued = false;
    bool down = false;  // its result is in
    std::unique_ptr<boost::asio::steady_timer> timer;
  };

  // Jobs, in prober.cc.
  void fill();
  void resolve(const std::string& name);
  void start(const Target& t);
  void begin(Job& j);
  void launch(Job& j, Channel& c, const Session& s, bool reverse);
  void landed(Flight& f);
  void take_echo(Job& j, const PathMtu& r);
  bool next_stage(Job& j);
  void report(Job& j);
  void set_route(Job& j, TargetResult& r);
  uint16_t first_link(const Endpoint& to);

  // Sending and receiving, in prober_io.cc.
  Channel& channel(Transport t, Family f, uint16_t flow);
  void wait_readable(Channel& c);
  void drain(Channel& c);
  void take(Channel& c, const Datagram& d);
  void take(const PathError& e);
  void advance(Flight& f);
  void pump();
  SendResult send_next(Flight& f);
  void local_limit(Flight& f, uint16_t size);

  boost::asio::io_context& io_;
  ProbeOptions options_;
  std::function<std::optional<std::string>()> next_;
  std::function<void(const TargetResult&)> sink_;
  std::function<void()> finished_;
  Routes routes_;
  boost::asio::ip::udp::resolver resolver_;
  size_t resolving_ = 0;
  bool exhausted_ = false, stopped_ = false;
  std::deque<Target> resolved_;
  std::map<std::tuple<Transport, Family, uint16_t>, std::unique_ptr<Channel>> channels_;
  std::unordered_map<Job*, std::unique_ptr<Job>> jobs_;
  struct NonceHash {
    size_t operator()(const Nonce& n) const;
  };
  std::unordered_map<Nonce, Flight*, NonceHash> flights_;
  std::deque<Flight*> queue_;
  Bucket pace_;
  boost::asio::steady_timer pump_timer_;
  bool pumping_ = false, pump_waits_ = false;
  std::vector<uint8_t> buffer_;
};

}  // namespace fpmtud
