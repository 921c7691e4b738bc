// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/host/server.h"

#include <algorithm>

#include "fpmtud/host/clock.h"

namespace fpmtud {
namespace {

using boost::system::error_code;

constexpr size_t kMaxSending = 16;  // rounds on their way at a time
constexpr size_t kMaxDrain = 256;   // datagrams before other work gets its turn
// 1 Gb/s: what receivers of default size and switches can take.
constexpr size_t kChunkBytes = 64 << 10;
constexpr auto kChunkPause = std::chrono::microseconds(500);

}  // namespace

Server::Server(boost::asio::io_context& io, const ResponderConfig& config,
               const std::vector<Endpoint>& listen)
    : responder_(config), pump_timer_(io), buffer_(65536) {
  for (const Endpoint& at : listen) listeners_.push_back(std::make_unique<Listener>(io, at));
  for (auto& l : listeners_) wait(*l);
}

Server::~Server() = default;

void Server::wait(Listener& l) {
  l.watch.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this, &l](error_code error) {
                       if (error) return;
                       drain(l);
                       wait(l);
                     });
}

void Server::drain(Listener& l) {
  for (size_t i = 0; i < kMaxDrain; ++i) {
    const auto d = l.socket.receive();
    if (!d) break;
    std::array<uint8_t, kReportBytes> report;
    std::optional<Request> request;
    const size_t n = responder_.answer(
        {.from = d->from, .payload = d->payload, .fragment = d->fragment, .ttl = d->ttl}, now(),
        report, request);
    // A report that can't be sent now counts as lost: the next bears the same tally.
    if (n != 0) l.socket.send(d->from, std::span(report).first(n), true, &d->local);
    if (request) begin(l, *d, *request);
  }
  while (l.socket.next_error()) {
  }
}

void Server::begin(Listener& l, const Datagram& d, const Request& r) {
  if (sending_.size() >= kMaxSending) return;  // it will be asked for again
  const auto route = routes_.find(d.from);
  if (!route) return;
  sending_.push_back({.listener = &l,
                      .to = d.from,
                      .from = d.local,
                      .request = r,
                      .round = plan_round(r.spec, d.from.family),
                      .link = route->interface_mtu});
  if (sending_.size() == 1) pump();
}

SendResult Server::send_next(Sending& s) {
  const Packet& p = s.round[s.next];
  const uint16_t top = std::max(std::min(s.request.spec.top, s.link), floor_of(s.to.family));
  if (!p.fragmentable && p.size > top) return SendResult::kSent;  // the header says why
  Probe probe;
  probe.head = {.flags = static_cast<uint8_t>(kReverse | (p.fragmentable ? kFragmentable : 0) |
                                              (s.next + 1 == s.round.size() ? kLast : 0)),
                .round = s.request.head.round,
                .nonce = s.request.head.nonce};
  probe.seq = static_cast<uint16_t>(s.next);
  probe.size = p.size;
  probe.top = std::max(top, p.size);
  probe.sent = s.request.sent;
  const auto out = std::span(buffer_).first(p.size - header_bytes(s.to.family));
  encode(probe, responder_.key(), out);
  return s.listener->socket.send(s.to, out, p.fragmentable, &s.from);
}

void Server::pump() {
  for (size_t sent = 0; !sending_.empty();) {
    Sending& s = sending_.front();
    sent += s.round[s.next].size;
    if (sent > kChunkBytes || send_next(s) == SendResult::kAgain) break;
    if (++s.next == s.round.size()) sending_.pop_front();
  }
  if (sending_.empty()) return;
  pump_timer_.expires_after(kChunkPause);
  pump_timer_.async_wait([this](error_code error) {
    if (!error) pump();
  });
}

}  // namespace fpmtud
