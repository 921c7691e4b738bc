// SPDX-License-Identifier: BSD-3-Clause
#include "caravan/host/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "caravan/core/hello.h"

namespace caravan {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

constexpr auto kTick = 50ms;
constexpr auto kLookAround = 1s;  // whether the way to the gateway has changed
constexpr auto kLastWords = 100ms;
// Without a datagram of a program for so long, the next isn't about to follow.
constexpr auto kPause = 2ms;
constexpr auto kLongestWait = 250ms;  // for a pause
constexpr size_t kReads = 64;  // packets of programs that are bundled together at most
constexpr int kDrains = 64;    // rounds of such reads
constexpr size_t kCutRoom = kReads * (96 << 10);
// After its last answer a gateway sends caravans for as long as we asked for, and some are under
// way.
constexpr auto kLinger = 2 * std::chrono::milliseconds(1000);

Time clock_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

Secret random_secret() {
  Secret s{};
  if (getrandom(s.data(), sizeof s, 0) != sizeof s)
    throw std::runtime_error("no random bytes from the kernel");
  return s;
}

std::string text_of(const Address& a) {
  char buffer[INET6_ADDRSTRLEN];
  return inet_ntop(a.family == Family::kIpv4 ? AF_INET : AF_INET6, a.bytes.data(), buffer,
                   sizeof buffer);
}

// The dummy address of RFC 7600: without any, Linux drops whatever arrives on the device where
// there is a reverse path filter, be it the loose one.
constexpr Address kDummy{Family::kIpv4, {192, 0, 0, 8}};

// Settings of the device; where one can't be had, the reason shows in what doesn't work then.
void put(const std::string& path, const char* value) { std::ofstream(path) << value; }

void set_up(const std::string& device) {
  // What comes from outside arrives here although its way back leads elsewhere.
  put("/proc/sys/net/ipv4/conf/" + device + "/rp_filter", "2");
  put("/proc/sys/net/ipv6/conf/" + device + "/accept_ra", "0");
  put("/proc/sys/net/ipv6/conf/" + device + "/addr_gen_mode", "1");
}

}  // namespace

struct Endpoint::Side {
  Side(boost::asio::io_context& io, const Address& to, uint16_t port, uint32_t mark)
      : gateway(to),
        socket(to.family, port, mark),
        sender(to.family, mark),
        watch(io, socket.fd()) {}
  ~Side() { watch.release(); }
  Address gateway;
  PortSocket socket;
  PacketSender sender;
  stream_descriptor watch;
  std::optional<Netlink::Way> way;
  std::optional<Client> client;
  Time looked{-kLookAround};
  std::optional<Time> lost;  // the gateway, while programs' datagrams still come here
  bool active(Time now) const { return client && client->active(now); }
};

Endpoint::Endpoint(boost::asio::io_context& io, const EndpointConfig& config)
    : io_(io),
      config_(config),
      tun_(config.tun, config.batches),
      tun_watch_(io, tun_.fd()),
      timer_(io),
      regroup_(tun_.segments(),
               [this](const Group& g) {
                 const size_t n = g.payloads.size();
                 if (!tun_.write(g)) {
                   count_.drop_to_programs += n;
                   return;
                 }
                 if (n > 1) {
                   ++count_.groups_to_programs;
                   count_.grouped_datagrams += n;
                 } else {
                   ++count_.singles_to_programs;
                   count_.damaged += !g.proved;
                 }
               }),
      batcher_(config.port, [this](const UdpPacket& p) { return cap_of(p); }),
      rooms_(kReads) {
  try {
    std::vector<Family> families;
    for (const Address& to : config_.gateways) {
      sides_.push_back(std::make_unique<Side>(io, to, config_.port, config_.steering.mark));
      families.push_back(to.family);
    }
    for (auto& room : rooms_) room.resize(Tun::kHeader + 65536);
    cut_.reserve(kCutRoom);
    set_up(tun_.name());
    int error = netlink_.link_up(tun_.name(), 1500);
    if (error == 0) error = netlink_.add_address(tun_.name(), kDummy);
    if (error != 0)
      throw std::runtime_error(fmt::format("{}: {}", tun_.name(), std::strerror(error)));
    if (config_.outbound)
      steering_ = std::make_unique<Steering>(netlink_, config_.steering, tun_.name(), families);
  } catch (...) {
    tun_watch_.release();
    throw;
  }
  for (auto& s : sides_) wait_port(*s);
  wait_tun();
  tick();
}

Endpoint::~Endpoint() {
  steering_.reset();
  tun_watch_.release();
}

Endpoint::Side* Endpoint::side_of(Family f) const {
  for (const auto& s : sides_)
    if (s->gateway.family == f) return s.get();
  return nullptr;
}

// The source and the size that caravans may have follow from the way to the gateway.
void Endpoint::look_around(Side& s, Time now) {
  s.looked = now;
  const auto way = netlink_.way_to(s.gateway, config_.steering.mark);
  const bool same = way && s.way && way->source == s.way->source && way->mtu == s.way->mtu;
  s.way = way;
  if (!way) s.client.reset();
  if (!way || same) return;
  const auto size = static_cast<uint16_t>(
      std::clamp<unsigned>(config_.size != 0 ? config_.size : way->mtu, kLeastSize, UINT16_MAX));
  s.client.emplace(ClientConfig{.size = size, .secret = random_secret()});
  if (steering_) go_direct(s.gateway.family);
  unsigned mtu = 1280;
  for (const auto& each : sides_) mtu = std::max(mtu, each->way ? each->way->mtu : 0);
  netlink_.link_up(tun_.name(), mtu);
}

// What programs sent before leaves before what they send from now on.
void Endpoint::go_direct(Family f) {
  drain();
  steering_->set(f, false, {});
  drain();
}

// Sends programs' datagrams here or past us; false: later. What is in the device when they turn away is
// overtaken by what goes directly, so that waits for a pause. Meanwhile nothing is bundled.
bool Endpoint::steer(Side& s, Time now) {
  const bool on = s.way && s.active(now), is = steering_->is_on(s.gateway.family);
  if (on || !is) s.lost.reset();
  if (on == is) return true;
  if (on) {
    steering_->set(s.gateway.family, true, s.way->source);
    return true;
  }
  if (!s.lost) s.lost = now;
  if (now - last_out_ < kPause && now - *s.lost < kLongestWait) return false;
  go_direct(s.gateway.family);
  return true;
}

void Endpoint::tick() {
  const Time now = clock_now();
  bool later = false;
  for (auto& s : sides_) {
    if (now - s->looked >= kLookAround) look_around(*s, now);
    if (s->client && s->client->due() <= now) {
      std::array<uint8_t, kHelloBytes> hello;
      encode(s->client->next(now), hello);
      s->socket.send(s->gateway, config_.port, hello);
    }
    if (steering_ && !steer(*s, now)) later = true;
  }
  timer_.expires_after(later ? kPause / 2 : kTick);
  timer_.async_wait([this](error_code error) {
    if (!error && !stopping_) tick();
  });
}

void Endpoint::stop() {
  if (stopping_) return;
  stopping_ = true;
  drain();
  steering_.reset();
  drain();
  for (auto& s : sides_) {
    const auto farewell = s->client ? s->client->farewell() : std::nullopt;
    if (!farewell) continue;
    std::array<uint8_t, kHelloBytes> hello;
    encode(*farewell, hello);
    s->socket.send(s->gateway, config_.port, hello);
  }
  timer_.expires_after(kLastWords);
  timer_.async_wait([this](error_code) { io_.stop(); });
}

void Endpoint::wait_port(Side& s) {
  s.watch.async_wait(stream_descriptor::wait_read, [this, &s](error_code error) {
    if (error) return;
    take(s);
    wait_port(s);
  });
}

void Endpoint::wait_tun() {
  tun_watch_.async_wait(stream_descriptor::wait_read, [this](error_code error) {
    if (error) return;
    bundle_out();
    wait_tun();
  });
}

void Endpoint::take(Side& s) {
  const Time now = clock_now();
  const bool heard = s.client && s.client->answered() && now - *s.client->answered() < kLinger;
  for (const Received& r : s.socket.receive()) {
    if (r.truncated) {
      ++count_.drop_truncated;
      continue;
    }
    const auto type = type_of(r.payload);
    if (type == Type::kCaravan && heard) {
      take_caravan(s, r);
    } else if (type == Type::kAnswer && s.client && r.from == s.gateway &&
               r.from_port == config_.port) {
      const bool was = s.client->active(now);
      // What follows an answer follows at once: a hello with the cookie, or the route.
      if (s.client->accept(r.payload, now) &&
          (s.client->due() <= now || was != s.client->active(now)) && !stopping_) {
        timer_.cancel();
        boost::asio::post(io_, [this] {
          if (!stopping_) tick();
        });
      }
    } else {
      ++count_.drop_stranger;
    }
  }
  regroup_.flush();
}

void Endpoint::take_caravan(const Side& s, const Received& r) {
  Records records;
  const Refusal refusal = unbundle(r.payload, s.gateway.family, config_.port, records);
  const int tos = refusal == Refusal::kNone ? tos_of(r.tos, records.ecn) : -1;
  if (tos < 0) {
    ++count_.drop_refused;
    return;
  }
  ++count_.caravans_in;
  count_.datagrams_in += records.count;
  const Regroup::From from{r.from, r.to, static_cast<uint8_t>(tos), r.ttl};
  for (unsigned i = 0; i < records.count; ++i)
    regroup_.add(from, datagram_of(r.payload, records.at[i]));
}

uint16_t Endpoint::cap_of(const UdpPacket& p) const {
  const Side* s = side_of(p.family);
  if (s == nullptr || !s->way || !s->active(clock_now()) || !(p.src() == s->way->source)) return 0;
  return static_cast<uint16_t>(std::min<unsigned>(s->client->size(), s->way->mtu));
}

// Until the device is empty, or has been filled faster for a while.
void Endpoint::drain() {
  for (int i = 0; i < kDrains && bundle_out(); ++i) {
  }
}

// True: the device may hold more.
bool Endpoint::bundle_out() {
  cut_.clear();
  const Time now = clock_now();
  bool more = true;
  for (size_t i = 0; i < kReads && cut_.size() + (96 << 10) <= kCutRoom; ++i) {
    Tun::Read read;
    more = tun_.read(rooms_[i], read);
    if (!more) break;
    const Bytes p = read.packet;
    const bool v6 = p[0] >> 4 == 6;
    // The kernel's own chatter about the device (neighbours, multicast listeners) is for nobody.
    if (p.size() < ip_bytes(v6 ? Family::kIpv6 : Family::kIpv4) ||
        (v6 && (p[6] == 58 || p[6] == 0)) || (!v6 && p[9] != pxio::kProtoUdp))
      continue;
    last_out_ = now;
    lengths_.clear();
    size_t at = cut_.size();
    if (read.segment != 0 && cut_datagrams(p, read.segment, cut_, lengths_)) {
      for (const size_t n : lengths_) {
        batcher_.add(Bytes(cut_).subspan(at, n));
        at += n;
      }
    } else {
      batcher_.add(p);
    }
  }
  for (const auto& s : sides_) {
    std::vector<Bytes> packets;
    for (const Batcher::Packet& p : batcher_.finish()) {
      if ((p.bytes[0] >> 4 == 6) != (s->gateway.family == Family::kIpv6)) continue;
      packets.push_back(p.bytes);
      count_.caravans_out += p.datagrams != 0;
      count_.datagrams_out += p.datagrams;
      count_.plain_out += p.datagrams == 0;
    }
    count_.drop_send += packets.size() - s->sender.send(packets);
  }
  batcher_.clear();
  return more;
}

nlohmann::json Endpoint::status() const {
  const Time now = clock_now();
  nlohmann::json j{{"device", tun_.name()},
                   {"batches", tun_.segments()},
                   {"outbound", config_.outbound},
                   {"port", config_.port},
                   {"families", nlohmann::json::array()}};
  for (const auto& s : sides_) {
    nlohmann::json f{
        {"family", s->gateway.family == Family::kIpv4 ? 4 : 6},
        {"gateway", text_of(s->gateway)},
        {"active", s->active(now)},
        {"source", s->way ? nlohmann::json(text_of(s->way->source)) : nlohmann::json()},
        {"steering", steering_ != nullptr && steering_->is_on(s->gateway.family)}};
    if (s->client) {
      f["hellos"] = s->client->hellos();
      f["answers"] = s->client->answers();
      f["size"] = s->client->size();
      f["session"] = fmt::format("{:016x}", s->client->session());
      f["full"] = s->client->status() == Status::kFull;
    }
    j["families"].push_back(f);
  }
  const EndpointCounters& c = count_;
  j["counters"] = {{"caravans_in", c.caravans_in},
                   {"datagrams_in", c.datagrams_in},
                   {"groups_to_programs", c.groups_to_programs},
                   {"grouped_datagrams", c.grouped_datagrams},
                   {"singles_to_programs", c.singles_to_programs},
                   {"caravans_out", c.caravans_out},
                   {"datagrams_out", c.datagrams_out},
                   {"plain_out", c.plain_out},
                   {"damaged", c.damaged},
                   {"drop_refused", c.drop_refused},
                   {"drop_stranger", c.drop_stranger},
                   {"drop_truncated", c.drop_truncated},
                   {"drop_to_programs", c.drop_to_programs},
                   {"drop_send", c.drop_send}};
  return j;
}

}  // namespace caravan
