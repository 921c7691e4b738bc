// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/host/prober.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "fpmtud/host/clock.h"
#include "fpmtud/host/nonce.h"
#include "fpmtud/host/prober_detail.h"

namespace fpmtud {
namespace {

using boost::system::error_code;
namespace asio = boost::asio;

}  // namespace

size_t Prober::NonceHash::operator()(const Nonce& n) const {
  size_t h;  // random as it is
  std::memcpy(&h, n.data(), sizeof h);
  return h;
}

Prober::Prober(asio::io_context& io, const ProbeOptions& options,
               std::function<std::optional<std::string>()> next,
               std::function<void(const TargetResult&)> sink, std::function<void()> finished)
    : io_(io),
      options_(options),
      next_(std::move(next)),
      sink_(std::move(sink)),
      finished_(std::move(finished)),
      resolver_(io),
      pump_timer_(io),
      buffer_(65536) {
  asio::post(io_, [this] { fill(); });
}

Prober::~Prober() = default;

void Prober::stop() {
  stopped_ = true;
  resolver_.cancel();
  queue_.clear();
  flights_.clear();
  jobs_.clear();
  for (auto& [key, c] : channels_) c->watch.cancel();
  pump_timer_.cancel();
}

void Prober::fill() {
  while (!stopped_ && under_way() < options_.parallel) {
    if (!resolved_.empty()) {
      const Target t = resolved_.front();
      resolved_.pop_front();
      start(t);
      continue;
    }
    const auto name = exhausted_ ? std::nullopt : next_();
    if (!name) {
      exhausted_ = true;
      break;
    }
    resolve(*name);
  }
  if (stopped_ || !exhausted_ || under_way() != 0 || !resolved_.empty()) return;
  // The descriptors' waits would keep the loop alive.
  for (auto& [key, c] : channels_) c->watch.cancel();
  finished_();
}

void Prober::resolve(const std::string& name) {
  if (const auto numeric = parse_address(name)) {
    Target t{name, *numeric};
    t.at.port = options_.port;
    return start(t);
  }
  ++resolving_;
  resolver_.async_resolve(
      name, "", [this, name](error_code error, const asio::ip::udp::resolver::results_type& found) {
        --resolving_;
        if (stopped_) return;
        bool any = false;
        for (const Family family : {Family::kIpv4, Family::kIpv6}) {
          if (error || (options_.family && *options_.family != family)) continue;
          for (const auto& r : found) {
            Endpoint e = to_endpoint(r.endpoint().data());
            if (e.family != family) continue;
            e.port = options_.port;
            resolved_.push_back({name, e});
            any = true;
            break;  // the first of each family
          }
        }
        if (!any) {
          TargetResult r;
          r.target.name = name;
          r.error = error ? error.message() : "it has no address of this family";
          sink_(r);
        }
        fill();
      });
}

uint16_t Prober::first_link(const Endpoint& to) {
  const auto route = routes_.find(to);
  return route ? route->interface_mtu : uint16_t{0};
}

void Prober::start(const Target& t) {
  auto job = std::make_unique<Job>();
  Job& j = *job;
  j.target = t;
  jobs_.emplace(&j, std::move(job));
  // Results come from the loop, never from within fill().
  asio::post(io_, [this, &j] {
    if (!stopped_) begin(j);
  });
}

void Prober::begin(Job& j) {
  j.began = now();
  j.paths = {};
  j.forward.reset();
  j.reverse.reset();
  j.tried_echo = j.refused = false;
  j.cookie = 0;
  j.channel = nullptr;
  if (options_.family && *options_.family != j.target.at.family) {
    TargetResult r;
    r.target = j.target;
    r.error = "it is an address of the other family";
    sink_(r);
    jobs_.erase(&j);
    return fill();
  }
  j.link = first_link(j.target.at);
  if (options_.unset_route || j.link == 0) return report(j);
  const SessionConfig config{
      .family = j.target.at.family, .top = std::min(options_.max, j.link), .exact = options_.exact};
  // At least one even if a report should come at once.
  j.in_air = options_.flows;
  for (uint16_t flow = 0; flow < options_.flows; ++flow)
    launch(j, channel(Transport::kUdp, j.target.at.family, flow), Session(config, now()), false);
}

void Prober::launch(Job& j, Channel& c, const Session& s, bool reverse) {
  auto flight =
      std::make_unique<Flight>(Flight{.job = &j,
                                      .channel = &c,
                                      .nonce = reverse && j.cookie != 0 ? j.nonce : random_nonce(),
                                      .reverse = reverse,
                                      .session = s,
                                      .timer = std::make_unique<asio::steady_timer>(io_)});
  Flight& f = *flight;
  flights_[f.nonce] = &f;
  j.flights.push_back(std::move(flight));
  advance(f);
}

void Prober::landed(Flight& f) {
  Job& j = *f.job;
  f.down = true;
  f.timer->cancel();
  flights_.erase(f.nonce);
  if (f.queued) queue_.erase(std::find(queue_.begin(), queue_.end(), &f));
  f.queued = false;
  PathMtu r = f.session.result();
  if (f.reverse) {
    j.reverse = r;
  } else if (f.channel->transport == Transport::kEcho) {
    r.notes |= kViaEcho;
    take_echo(j, r);
  } else {
    j.paths.add(f.channel->socket.port(), r);
    j.forward = j.paths.result();
  }
  if (--j.in_air != 0) return;
  // Not here: whoever called still works on the flight.
  asio::post(io_, [this, &j] {
    if (stopped_) return;
    j.flights.clear();
    if (!next_stage(j)) report(j);
  });
}

// What echo doesn't know either stays what it was.
void Prober::take_echo(Job& j, const PathMtu& r) {
  PathMtu& f = *j.forward;
  const auto notes = static_cast<uint16_t>(f.notes | r.notes);
  const auto trips = std::max(f.round_trips, r.round_trips);
  if (r.verdict != Verdict::kSilent) f = r;
  f.notes = notes;
  if (f.finding.mtu == 0) f.notes &= static_cast<uint16_t>(~kViaEcho);
  f.round_trips = trips;
}

// Whether there is more to measure for this target, which then has begun.
bool Prober::next_stage(Job& j) {
  const Family family = j.target.at.family;
  const bool known = j.forward->finding.mtu != 0;
  if (!known && options_.fallback && !j.tried_echo) {
    j.tried_echo = true;
    SessionConfig config{.family = family,
                         .top = std::min(options_.max, j.link),
                         .exact = options_.exact,
                         .use_hints = true};
    j.in_air = 1;
    launch(j, channel(Transport::kEcho, family, 0), Session(config, now()), false);
    return true;
  }
  if (known && !j.tried_echo && options_.both && !j.reverse) {
    j.in_air = 1;
    const SessionConfig config{.family = family, .top = options_.max, .exact = options_.exact};
    launch(j, j.channel != nullptr ? *j.channel : channel(Transport::kUdp, family, 0),
           Session(config, now()), true);
    return true;
  }
  return false;
}

void Prober::set_route(Job& j, TargetResult& r) {
  std::string wrong;
  if (options_.unset_route) {
    wrong = routes_.unset(j.target.at);
    r.route = "removed";
  } else if (options_.set_route) {
    if (r.forward.verdict != Verdict::kMeasured) {
      r.route = "unchanged: nothing is known";
      r.route_failed = true;
      return;
    }
    wrong = routes_.set(j.target.at, r.forward.finding.mtu);
    r.route = fmt::format("mtu {}", r.forward.finding.mtu);
  }
  if (!wrong.empty()) {
    r.route = wrong;
    r.route_failed = true;
  }
}

void Prober::report(Job& j) {
  TargetResult r;
  r.target = j.target;
  if (j.link == 0) r.error = "no route leads there";
  if (j.forward) {
    r.forward = *j.forward;
    if (r.forward.verdict == Verdict::kSilent && j.refused) r.forward.verdict = Verdict::kRefused;
    r.forward.took = now() - j.began;
  }
  r.paths = j.paths;
  r.reverse = j.reverse;
  if (r.error.empty()) set_route(j, r);
  sink_(r);
  if (stopped_) return;
  if (options_.watch) {
    j.pause = std::make_unique<asio::steady_timer>(io_, *options_.watch);
    j.pause->async_wait([this, &j](error_code error) {
      if (!error && !stopped_) begin(j);
    });
    return;
  }
  jobs_.erase(&j);
  fill();
}

}  // namespace fpmtud
