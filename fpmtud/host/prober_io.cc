// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "fpmtud/host/clock.h"
#include "fpmtud/host/prober_detail.h"

namespace fpmtud {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

// Beyond the rate: any round of one target. A full one has 390 KB with jumbo frames, every size
// 4 MB.
constexpr uint64_t kBurstBytes = 4 << 20;
// 1 Gb/s: what receivers of default size and switches can take.
constexpr uint64_t kChunkBytes = 64 << 10;
constexpr auto kChunkPause = std::chrono::microseconds(500);
constexpr size_t kMaxDrain = 256;

bool nonce_of(std::span<const uint8_t> payload, Nonce& nonce) {
  if (payload.size() < 24 || !type_of(payload)) return false;
  std::copy_n(payload.begin() + 8, nonce.size(), nonce.begin());
  return true;
}

}  // namespace

Prober::Channel& Prober::channel(Transport t, Family f, uint16_t flow) {
  auto& c = channels_[{t, f, flow}];
  if (!c) {
    c = std::make_unique<Channel>(io_, t, f);
    wait_readable(*c);
  }
  return *c;
}

void Prober::wait_readable(Channel& c) {
  c.watch.async_wait(stream_descriptor::wait_read, [this, &c](error_code error) {
    if (error || stopped_) return;
    drain(c);
    if (!stopped_) wait_readable(c);
  });
}

void Prober::drain(Channel& c) {
  for (size_t i = 0; i < kMaxDrain; ++i) {
    const auto d = c.socket.receive();
    if (!d) break;
    take(c, *d);
  }
  while (const auto e = c.socket.next_error()) take(*e);
}

void Prober::take(Channel& c, const Datagram& d) {
  Nonce nonce;
  if (!nonce_of(d.payload, nonce)) return;
  const auto it = flights_.find(nonce);
  if (it == flights_.end()) return;
  Flight& f = *it->second;
  Job& j = *f.job;
  if (f.channel != &c || d.from.address != j.target.at.address) return;
  const Key* key = options_.key ? &*options_.key : nullptr;
  Seen s;
  if (c.transport == Transport::kEcho) {  // our own probe, sent back
    const auto p = parse_probe(d.payload, d.from.family, nullptr);
    if (!p) return;
    s = {.round = p->head.round, .seq = p->seq, .size = p->size, .flags = kLast, .sent = p->sent};
    if ((p->head.flags & kFragmentable) == 0)
      s.tally = {.whole = 1, .largest_whole = p->size};
    else if (d.fragment != 0)
      f.session.hint(d.fragment);  // the way back, often the same
  } else if (d.from.port != j.target.at.port) {
    return;
  } else if (f.reverse) {
    const auto p = parse_probe(d.payload, d.from.family, key);
    if (!p || (p->head.flags & kReverse) == 0) return;
    if (p->head.round != j.reverse_round || p->head.round != f.session.round_number()) return;
    f.session.limit_top(p->top);
    j.reverse_tally.add(*p, d.fragment);
    s = {.round = p->head.round,
         .seq = p->seq,
         .size = p->size,
         .flags = p->head.flags,
         .fragment = d.fragment,
         .sent = p->sent,
         .tally = j.reverse_tally.tally()};
  } else {
    const auto r = parse_report(d.payload, key);
    if (!r) return;
    s = seen_of(*r);
    if (r->cookie != 0 && (j.channel == nullptr || j.channel == &c)) {
      j.nonce = nonce;
      j.cookie = r->cookie;
      j.channel = &c;
    }
  }
  if (f.session.seen(s, now())) advance(f);
}

void Prober::take(const PathError& e) {
  Nonce nonce;
  // A router that quotes enough shows that it saw a probe; others may be anyone.
  const bool quoted = nonce_of(e.quote, nonce);
  for (auto it = flights_.begin(); it != flights_.end();) {
    Flight& f = *it++->second;  // advance() may remove it
    if (quoted ? f.nonce != nonce : f.job->target.at.address != e.to.address) continue;
    if (e.kind == PathError::Kind::kTooBig && !e.local) f.session.hint(e.mtu);
    if (e.kind == PathError::Kind::kRefused && f.channel->transport == Transport::kUdp) {
      f.job->refused = true;
      if (quoted) f.session.refuse(now());
      advance(f);
      return;
    }
  }
}

// After anything has changed in a session.
void Prober::advance(Flight& f) {
  if (f.down) return;  // a timer that had run out before it was stopped
  if (f.session.done()) return landed(f);
  const Time t = now();
  Time wake = f.session.deadline();
  if (f.session.wants_to_send() && !f.queued) {
    if (f.session.send_at() <= t) {
      f.next = 0;
      f.queued = true;
      queue_.push_back(&f);
      if (!pumping_ && !pump_waits_) pump();
      return;
    }
    wake = f.session.send_at();
  }
  if (f.queued) return;
  f.timer->expires_after(std::max(wake - t, Time(0)));
  f.timer->async_wait([this, &f](error_code error) {
    if (error || stopped_) return;
    f.session.expire(now());
    advance(f);
  });
}

void Prober::pump() {
  pumping_ = true;
  const Allowance pace{options_.rate, kBurstBytes};
  std::chrono::microseconds again{0};
  uint64_t chunk = 0;
  while (!queue_.empty() && again.count() == 0) {
    Flight& f = *queue_.front();
    const Round& round = f.session.round();
    const size_t bytes = f.reverse ? kRequestBytes : round[f.next].size;
    if (!pace_.has(pace, bytes, now())) {
      again = std::chrono::milliseconds(1);
      break;
    }
    if (chunk + bytes > kChunkBytes) {
      again = kChunkPause;
      break;
    }
    chunk += bytes;
    const SendResult sent = send_next(f);
    if (sent == SendResult::kAgain) {
      again = std::chrono::milliseconds(1);
      break;
    }
    pace_.take(pace, bytes, now());
    if (sent == SendResult::kTooBig) local_limit(f, round[f.next].size);
    if (f.reverse || ++f.next == round.size()) {
      queue_.pop_front();
      f.queued = false;
      f.session.round_sent(now());
      advance(f);
    }
  }
  pumping_ = false;
  if (again.count() == 0) return;
  pump_waits_ = true;
  pump_timer_.expires_after(again);
  pump_timer_.async_wait([this](error_code error) {
    pump_waits_ = false;
    if (!error && !stopped_) pump();
  });
}

SendResult Prober::send_next(Flight& f) {
  const Job& j = *f.job;
  const Key* key =
      options_.key && f.channel->transport == Transport::kUdp ? &*options_.key : nullptr;
  const auto stamp = static_cast<uint64_t>(now().count());
  if (f.reverse) {
    Request r;
    r.head = {.round = f.session.round_number(), .nonce = f.nonce};
    r.spec = f.session.spec();
    r.sent = stamp;
    r.cookie = j.cookie;
    f.job->reverse_tally = {};
    f.job->reverse_round = r.head.round;
    const auto out = std::span(buffer_).first(kRequestBytes);
    encode(r, key, out);
    return f.channel->socket.send(j.target.at, out, true);
  }
  const Packet& p = f.session.round()[f.next];
  if (!p.fragmentable && p.size > f.session.top()) return SendResult::kSent;
  Probe probe;
  probe.head = {.flags = static_cast<uint8_t>((p.fragmentable ? kFragmentable : 0) |
                                              (f.next + 1 == f.session.round().size() ? kLast : 0) |
                                              (options_.both ? kWantCookie : 0)),
                .round = f.session.round_number(),
                .nonce = f.nonce};
  probe.seq = static_cast<uint16_t>(f.next);
  probe.size = p.size;
  probe.top = std::max(f.session.top(), p.size);
  probe.sent = stamp;
  const auto out = std::span(buffer_).first(p.size - header_bytes(j.target.at.family));
  encode(probe, key, out);
  return f.channel->socket.send(j.target.at, out, p.fragmentable);
}

// The interface takes less than it did when its MTU was looked up.
void Prober::local_limit(Flight& f, uint16_t size) {
  auto mtu = static_cast<uint16_t>(size - 1);
  while (const auto e = f.channel->socket.next_error()) {
    if (e->local && e->kind == PathError::Kind::kTooBig && e->mtu != 0 && e->mtu < size)
      mtu = e->mtu;
  }
  f.session.limit_top(mtu);
}

}  // namespace fpmtud
