// SPDX-License-Identifier: BSD-3-Clause
// What prober.cc and prober_io.cc share.
#pragma once
#include "fpmtud/core/tally.h"
#include "fpmtud/host/prober.h"

namespace fpmtud {

struct Prober::Channel {
  Channel(boost::asio::io_context& io, Transport t, Family f)
      : transport(t), socket(t, f), watch(io, socket.fd()) {}
  ~Channel() { watch.release(); }
  Transport transport;
  Socket socket;
  boost::asio::posix::stream_descriptor watch;
};

struct Prober::Job {
  Target target;
  Time began{0};
  std::vector<std::unique_ptr<Flight>> flights;  // of the stage under way
  size_t in_air = 0;
  PortPaths paths;
  std::optional<PathMtu> forward, reverse;
  bool refused = false;  // an ICMP error said so, though anyone could have sent it
  bool tried_echo = false;
  // The first session that got a cookie: the way back is measured to its port.
  Nonce nonce{};
  uint64_t cookie = 0;
  Channel* channel = nullptr;
  uint16_t link = 0;
  RoundTally reverse_tally;  // of the reverse round under way
  uint8_t reverse_round = 0;
  std::unique_ptr<boost::asio::steady_timer> pause;
};

}  // namespace fpmtud
