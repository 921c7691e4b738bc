// SPDX-License-Identifier: BSD-3-Clause
// Hello: who may register, for how long, and what a host takes as an answer.
#include <catch2/catch.hpp>
#include <map>

#include "caravan/core/client.h"
#include "caravan/core/registrar.h"
#include "tests/caravan/unit/capture.h"
#include "tests/caravan/unit/same.h"

using namespace caravan;
using namespace test;

namespace {

Address host4(uint8_t last) { return {Family::kIpv4, {10, 9, 0, last}}; }
Address host6(uint8_t last) {
  return {Family::kIpv6, {0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

using Message = std::array<uint8_t, kHelloBytes>;
template <typename M>
Message encoded(const M& m) {
  Message b{};
  encode(m, b);
  return b;
}

constexpr Secret kSecret{1, 2};

struct Gateway {
  HostTable hosts{64, kSecret};
  Registrar registrar;
  explicit Gateway(uint64_t session = 77, uint32_t per_second = 10'000)
      : registrar(
            hosts,
            {.largest = 8000, .per_second = per_second, .secret = kSecret, .session = session}) {}
  std::optional<Answer> ask(const Address& from, const Hello& hello, Time now) {
    Message out{};
    if (!registrar.answer(from, encoded(hello), now, out)) return {};
    return parse_answer(out);
  }
};

}  // namespace

TEST_CASE("SipHash: the vectors of its paper and reference") {
  Secret key;
  uint8_t bytes[16];
  for (uint8_t i = 0; i < 16; ++i) bytes[i] = i;
  std::memcpy(key.data(), bytes, 16);
  CHECK(siphash(key, std::span(bytes).first(15)) == 0xa129ca6149be45e5);
  CHECK(siphash(key, std::span(bytes).first(0)) == 0x726fdb47dd0e0e31);
  CHECK(siphash(key, std::span(bytes).first(8)) == 0x93f5f5799a932462);
}

TEST_CASE("hello: the messages of the vectors, both ways") {
  constexpr uint64_t nonce = 0x0102030405060708, cookie = 0x1112131415161718,
                     session = 0x2122232425262728;
  const Message expected[] = {
      encoded(Hello{9000, 1000, nonce, 0, 0}),
      encoded(Answer{Status::kCookie, 9000, 1000, nonce, cookie, session}),
      encoded(Hello{9000, 1000, nonce + 1, cookie, session}),
      encoded(Answer{Status::kRegistered, 8000, 1000, nonce + 1, cookie, session}),
      encoded(Hello{0, 0, nonce + 2, cookie, session}),
      encoded(Answer{Status::kGone, 0, 100, nonce + 2, cookie, session})};
  const auto packets = read_vectors("messages.pcap");
  REQUIRE(packets.size() == 12);
  for (size_t i = 0; i < packets.size(); ++i) {
    const Bytes payload = udp_payload(packets[i]);
    const Message& m = expected[i % 6];
    CHECK(same_bytes({payload.begin(), payload.end()}, {m.begin(), m.end()}));
    CHECK(parse_hello(payload).has_value() == (i % 2 == 0));
    CHECK(parse_answer(payload).has_value() == (i % 2 == 1));
  }
  CHECK(parse_answer(udp_payload(packets[3]))->size == 8000);
  CHECK(parse_hello(udp_payload(packets[2]))->cookie == cookie);
}

TEST_CASE("hello: what isn't exactly one is no message") {
  const Message good = encoded(Hello{9000, 1000, 5, 0, 0});
  REQUIRE(parse_hello(good));
  CHECK_FALSE(parse_hello(Bytes(good).first(31)));
  Packet longer(good.begin(), good.end());
  longer.push_back(0);
  CHECK_FALSE(parse_hello(longer));
  for (const auto& [at, value] :
       std::map<size_t, uint8_t>{{0, 0x51}, {1, 0x59}, {2, 0x21}, {3, 1}, {4, 4}}) {
    Message b = good;
    b[at] = value;  // the last: a size of 1064, which no caravan fits
    CHECK_FALSE(parse_hello(b));
  }
  Message b = encoded(Answer{});
  b[3] = 4;
  CHECK_FALSE(parse_answer(b));
}

TEST_CASE("hello: a host is known once it has returned a cookie, and until its time is over") {
  Gateway g;
  Time now = 100s;
  for (const Address& host : {host4(2), host6(2)}) {
    const auto first = g.ask(host, {9000, 1000, 5, 0, 0}, now);
    REQUIRE(first);
    CHECK(first->status == Status::kCookie);
    CHECK(first->nonce == 5);
    CHECK(first->session == 77);
    CHECK(g.hosts.size_of(host, now) == 0);  // nothing is kept of who hasn't proved anything
    const auto second = g.ask(host, {9000, 1000, 6, first->cookie, 77}, now + 1ms);
    REQUIRE(second);
    CHECK(second->status == Status::kRegistered);
    CHECK(second->size == 8000);  // what the gateway can send
    CHECK(second->lifetime_ms == 1000);
    CHECK(g.hosts.size_of(host, now + 1000ms) == 8000);
    CHECK(g.hosts.size_of(host, now + 1001ms) == 0);
    // Renewed, then taken back.
    CHECK(g.ask(host, {4000, 500, 7, second->cookie, 77}, now + 900ms)->size == 4000);
    CHECK(g.hosts.size_of(host, now + 1399ms) == 4000);
    CHECK(g.ask(host, {0, 0, 8, second->cookie, 77}, now + 1000ms)->status == Status::kGone);
    CHECK(g.hosts.size_of(host, now + 1001ms) == 0);
  }
  CHECK(g.registrar.counters().registered == 2);
  CHECK(g.registrar.counters().renewed == 2);
  CHECK(g.registrar.counters().unregistered == 2);
}

TEST_CASE("hello: a stranger who doesn't get our mail registers and unregisters nobody") {
  Gateway g;
  const Time now = 100s;
  const auto mine = g.ask(host4(2), {9000, 1000, 5, 0, 0}, now);
  REQUIRE(g.ask(host4(2), {9000, 60000, 6, mine->cookie, 77}, now)->status == Status::kRegistered);
  // Its own cookie is no good for another's address; nor is none, or a guess.
  for (const uint64_t cookie : {uint64_t{0}, uint64_t{1}, mine->cookie ^ 1}) {
    CHECK(g.ask(host4(2), {0, 0, 7, cookie, 77}, now)->status == Status::kCookie);
    CHECK(g.ask(host4(3), {9000, 1000, 7, cookie, 77}, now)->status == Status::kCookie);
  }
  CHECK(g.ask(host4(3), {9000, 1000, 7, mine->cookie, 77}, now)->status == Status::kCookie);
  CHECK(g.hosts.size_of(host4(2), now) == 8000);
  CHECK(g.hosts.size_of(host4(3), now) == 0);
  // A cookie that somebody recorded is of no use a minute later, nor after a restart.
  CHECK(g.ask(host4(2), {0, 0, 7, mine->cookie, 77}, now + 61s)->status == Status::kCookie);
  Gateway restarted(78);
  CHECK(restarted.ask(host4(2), {9000, 1000, 8, mine->cookie, 77}, now)->status == Status::kCookie);
  // The same bits as an address of the other family are another host.
  Address six{Family::kIpv6, host4(2).bytes};
  CHECK(g.ask(six, {9000, 1000, 9, mine->cookie, 77}, now)->status == Status::kCookie);
}

TEST_CASE("hello: the lifetime is bounded, the table and the rate of answers too") {
  Gateway g;
  const Time now = 100s;
  const auto enter = [&](const Address& host, uint16_t lifetime) {
    const auto c = g.ask(host, {9000, lifetime, 1, 0, 0}, now);
    return g.ask(host, {9000, lifetime, 2, c->cookie, 77}, now);
  };
  CHECK(enter(host4(1), 65535)->lifetime_ms == 10'000);
  CHECK(enter(host4(1), 0)->lifetime_ms == 100);
  unsigned full = 0;
  for (unsigned i = 0; i < 256; ++i)
    full += enter(host6(static_cast<uint8_t>(i)), 1000)->status == Status::kFull;
  CHECK(full >= 256 - g.hosts.capacity());
  CHECK(full == g.registrar.counters().refused_full);
  unsigned known = 0;
  g.hosts.for_each(now, [&](const Host&) { ++known; });
  CHECK(known <= g.hosts.capacity());
  CHECK(known == 257 - full);
  // Who is in stays in, and room is there again once they are gone.
  unsigned later = 0;
  g.hosts.for_each(now + 1001ms, [&](const Host&) { ++later; });
  CHECK(later == 0);
  Gateway slow(77, 3);
  unsigned answered = 0;
  for (unsigned i = 0; i < 10; ++i)
    answered += slow.ask(host4(2), {9000, 1000, 1, 0, 0}, now).has_value();
  CHECK(answered == 3);
  CHECK(slow.ask(host4(2), {9000, 1000, 1, 0, 0}, now + 1s));
  CHECK(slow.registrar.counters().drop_limit == 7);
}

TEST_CASE("hello: hosts of the configuration stay, whatever is said on the wire") {
  Gateway g;
  const Time now = 100s;
  REQUIRE(g.hosts.set({host4(9), 5000, Time::max()}, now));
  const auto c = g.ask(host4(9), {9000, 1000, 1, 0, 0}, now);
  CHECK(g.ask(host4(9), {9000, 1000, 2, c->cookie, 77}, now)->status == Status::kRegistered);
  CHECK(g.ask(host4(9), {0, 0, 3, c->cookie, 77}, now)->status == Status::kGone);
  CHECK(g.hosts.size_of(host4(9), now + 24h) == 5000);
}

namespace {

// A host and a gateway that hear each other as long as `up`.
struct Pair {
  Client client{{.size = 9000, .secret = {3, 4}}};
  std::optional<Gateway> gateway{std::in_place};
  Time now = 100s;
  uint64_t sent = 0;
  void run(Time until) {
    for (; now < until; now += 1ms) {
      if (client.due() > now) continue;
      const Hello h = client.next(now);
      ++sent;
      Message out{};
      if (gateway && gateway->registrar.answer(host4(2), encoded(h), now, out))
        client.accept(out, now);
    }
  }
};

}  // namespace

TEST_CASE(
    "client: registers at once, renews in time, and notices within a second that nobody answers") {
  Pair p;
  p.run(p.now + 2ms);
  CHECK(p.client.active(p.now));
  CHECK(p.client.size() == 8000);
  for (int i = 0; i < 100; ++i) {
    p.run(p.now + 50ms);
    REQUIRE(p.gateway->hosts.size_of(host4(2), p.now) == 8000);
  }
  CHECK(p.sent < 30);
  p.gateway.reset();
  const Time gone = p.now;
  while (p.client.active(p.now)) p.run(p.now + 1ms);
  CHECK(p.now - gone <= 1s);
  p.run(p.now + 60s);
  CHECK_FALSE(p.client.active(p.now));
  // Back, with another session.
  p.gateway.emplace(78);
  const Time back = p.now;
  while (!p.client.active(p.now) && p.now < back + 5s) p.run(p.now + 1ms);
  CHECK(p.now - back <= 1100ms);
  CHECK(p.client.session() == 78);
}

TEST_CASE("client: a gateway's restart that takes no time is noticed with the next hello") {
  Pair p;
  p.run(p.now + 1s);
  REQUIRE(p.client.active(p.now));
  p.gateway.emplace(78);
  p.run(p.now + 300ms);
  CHECK(p.client.active(p.now));
  CHECK(p.gateway->hosts.size_of(host4(2), p.now) == 8000);
}

TEST_CASE("client: takes no answer that it hasn't asked for") {
  Client c({.secret = {5, 6}});
  const Hello first = c.next(1s);
  Answer a{Status::kRegistered, 9000, 1000, first.nonce, 7, 8};
  a.nonce ^= 1;
  CHECK_FALSE(c.accept(encoded(a), 1s));
  CHECK_FALSE(c.active(1s));
  a.nonce ^= 1;
  a.session = 0;
  CHECK_FALSE(c.accept(encoded(a), 1s));
  a.session = 8;
  CHECK(c.accept(encoded(a), 1s));
  CHECK(c.active(1s));
  // Long after it was asked for, it is a replay.
  for (int i = 0; i < 10; ++i) c.next(2s + i * 1s);
  CHECK_FALSE(c.accept(encoded(a), 12s));
  // Nobody gets a host to send storms by handing out cookies.
  Client d({.secret = {5, 6}});
  unsigned sent = 0;
  for (Time now = 1s; now < 11s; now += 1ms) {
    if (d.due() > now) continue;
    ++sent;
    d.accept(encoded(Answer{Status::kCookie, 9000, 1000, d.next(now).nonce, 7, 8}), now);
  }
  CHECK(sent < 50);
}
