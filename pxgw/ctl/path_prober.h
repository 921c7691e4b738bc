// SPDX-License-Identifier: BSD-3-Clause
// Measures path MTUs for the gateway: takes what workers report of large flows, runs a session of
// fpmtud/core for the destination, has workers send its probes in the name of the flow's inside
// host, and tells all workers what came of it. What was found is checked from more source ports,
// since links of different MTU may share the load, and the least of all counts. Time is handed in.
// Control thread.
#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "fpmtud/core/limiter.h"
#include "fpmtud/core/port_paths.h"
#include "pxgw/ctl/stats.h"
#include "pxgw/dp/mailbox.h"

namespace pxgw {

class PathProber {
 public:
  struct Options {
    bool probe = false;             // whether anything is probed at all
    std::vector<uint16_t> top;      // by pair: the largest size to try, the port's MTU
    std::vector<uint16_t> assumed;  // by pair: what is taken for true without a probe
    uint16_t port = fpmtud::kDefaultPort;
    std::optional<fpmtud::Key> key;
    uint32_t per_second = 10;                          // destinations begun with
    pxio::Nanos lifetime = std::chrono::seconds(600);  // of what is known, for the list
  };
  // What it needs of the workers; false: their ring is full.
  struct Workers {
    uint16_t count = 0;
    std::function<bool(uint16_t worker, const Command& c)> tell;
    // A frame to leave on the outside port of the pair.
    std::function<bool(uint16_t worker, uint8_t pair, std::span<const uint8_t> frame)> transmit;
  };

  PathProber(const Options& options, Workers workers);
  void set_options(const Options& options) { options_ = options; }

  void take(uint16_t worker, const Report& r, pxio::Nanos now);
  // Sends, waits, ends sessions. Returns when to be called again at the latest; Nanos::max(): not
  // before something is taken.
  pxio::Nanos advance(pxio::Nanos now);

  // Whether reports are to be looked for often.
  bool busy() const { return !flights_.empty() || !queue_.empty(); }

  // For `pxgw pmtu`: JSON, destinations as text. `probe` and `forget` throw std::runtime_error.
  Json list(pxio::Nanos now) const;
  Json show(const PathKey& to, pxio::Nanos now) const;
  // Measures it anew. Where no packet to it has shown the way, the next one will.
  void probe(const PathKey& to, pxio::Nanos now);
  void flush();

  static constexpr size_t kMaxDestinations = 4096, kMaxFlights = 8, kMaxQueued = 1024;
  // Source ports from which a value is checked: one of two links goes unnoticed once in 128 times.
  static constexpr uint16_t kChecks = 7;

 private:
  using Key = std::pair<uint8_t, PathKey>;  // pair, outside address
  struct Less {
    bool operator()(const Key& a, const Key& b) const {
      return std::tie(a.first, a.second.version, a.second.addr) <
             std::tie(b.first, b.second.version, b.second.addr);
    }
  };
  enum class State : uint8_t { kAwaited, kQueued, kProbing, kConfirmed, kLowered, kSilent };
  struct Destination {
    State state = State::kSilent;
    uint16_t mtu = 0;         // in use; 0: the assumed one
    bool lowered = false;     // by an error or retransmissions, and not measured since
    pxio::Nanos since{0};     // of the state
    uint16_t worker = 0;      // that knows the way
    PathKey from;             // an inside host that sends there; version 0: none is known
    std::vector<uint8_t> l2;  // of a packet to there
    fpmtud::PortPaths paths;  // of the last probe, by source port
    pxio::Nanos took{0};
    uint16_t under_way = 0;   // sessions
    uint32_t probes = 0;
  };
  struct Flight {
    Key key;
    fpmtud::Session session;
    bool check = false;  // of what another has found
    fpmtud::Nonce nonce{};
    uint16_t from_port = 0;
    PathKey from;
    size_t next = 0;  // packet of the round
    size_t told = 0;  // workers that expect its reports
  };

  Destination* at(const Key& key, pxio::Nanos now);
  void learn_way(uint16_t worker, const Report& r, pxio::Nanos now);
  void enqueue(const Key& key, Destination& d, pxio::Nanos now);
  void begin(const Key& key, pxio::Nanos now);
  void launch(const Key& key, Destination& d, const fpmtud::SessionConfig& config, pxio::Nanos now);
  bool send_some(Flight& f, uint64_t& chunk, pxio::Nanos now);
  void landed(const Flight& f, pxio::Nanos now);
  bool usable(const fpmtud::PathMtu& r, uint8_t pair) const;
  void settle(const Key& key, Destination& d, pxio::Nanos now);
  void tell_all(Command c);
  Json row(const Key& key, const Destination& d, pxio::Nanos now) const;

  Options options_;
  Workers workers_;
  std::map<Key, Destination, Less> known_;
  std::deque<Key> queue_;
  std::list<Flight> flights_;
  fpmtud::Bucket starts_;
  std::mt19937_64 random_{std::random_device{}()};
  std::vector<uint8_t> frame_;
};

// "192.0.2.1" or "2001:db8::1". Throws std::runtime_error with what would be right.
PathKey parse_destination(const std::string& text);
std::string to_string(const PathKey& key);

}  // namespace pxgw
