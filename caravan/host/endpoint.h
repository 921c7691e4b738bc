// SPDX-License-Identifier: BSD-3-Clause
// A host that takes caravans: asks the gateway for them, hands what is inside to programs, and
// bundles what they send to the outside. While no gateway answers, nothing of a program's traffic
// passes here. One thread, that of the io_context.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "caravan/core/batcher.h"
#include "caravan/core/client.h"
#include "caravan/core/regroup.h"
#include "caravan/host/netlink.h"
#include "caravan/host/sockets.h"
#include "caravan/host/steering.h"
#include "caravan/host/tun.h"

namespace caravan {

struct EndpointConfig {
  std::vector<Address> gateways;  // one for each family: addresses beyond the gateway
  uint16_t port = kDefaultPort;
  uint16_t size = 0;  // the largest caravan to take; 0: the MTU of the interface
  std::string tun = "caravan0";
  bool outbound = true;
  bool batches = true;  // where the kernel can
  Steering::Config steering;
};

struct EndpointCounters {
  uint64_t caravans_in = 0, datagrams_in = 0;    // received, and what was inside
  uint64_t groups_to_programs = 0;               // calls that handed over several datagrams
  uint64_t grouped_datagrams = 0;                // in those
  uint64_t singles_to_programs = 0;              // calls that handed over one
  uint64_t caravans_out = 0, datagrams_out = 0;  // sent, and what was inside
  uint64_t plain_out = 0;                        // datagrams of programs that left as they came
  uint64_t drop_refused = 0, drop_stranger = 0, drop_truncated = 0, drop_to_programs = 0,
           drop_send = 0;
  uint64_t damaged = 0;  // datagrams whose checksum fails; handed over as they are
};

class Endpoint {
 public:
  // Throws std::runtime_error with one line that says what to do.
  Endpoint(boost::asio::io_context& io, const EndpointConfig& config);
  ~Endpoint();
  // Takes the registration back and the routes away; what is under way is still received until the
  // io_context ends, 100 ms later.
  void stop();
  nlohmann::json status() const;

 private:
  struct Side;
  void tick();
  void look_around(Side& s, Time now);
  void wait_port(Side& s);
  void wait_tun();
  void take(Side& s);
  void take_caravan(const Side& s, const Received& r);
  bool bundle_out();
  void drain();
  void go_direct(Family f);
  bool steer(Side& s, Time now);
  uint16_t cap_of(const UdpPacket& p) const;
  Side* side_of(Family f) const;

  boost::asio::io_context& io_;
  EndpointConfig config_;
  EndpointCounters count_;
  Netlink netlink_;
  Tun tun_;
  boost::asio::posix::stream_descriptor tun_watch_;
  boost::asio::steady_timer timer_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::unique_ptr<Steering> steering_;
  Regroup regroup_;
  Batcher batcher_;
  std::vector<std::vector<uint8_t>> rooms_;  // of packets read from the TUN device
  std::vector<uint8_t> cut_;                 // datagrams that large ones were cut into
  std::vector<size_t> lengths_;
  Time last_out_{0};  // when a program's datagram last came
  bool stopping_ = false;
};

}  // namespace caravan
