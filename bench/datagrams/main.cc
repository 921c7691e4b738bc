// SPDX-License-Identifier: BSD-3-Clause
// pxdgram: a sender of UDP datagrams at a rate, and programs that receive them: one by one, by
// UDP_GRO, or with libcaravan. What bench/caravans.py measures with.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/command_line.h"
#include "caravan/core/caravan.h"
#include "pxio/dp/checksum.h"
#include "pxio/dp/fd.h"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr unsigned kBatch = 64;  // datagrams of a system call
constexpr size_t kRoom = 65536;
constexpr size_t kMostSamples = 1u << 24;

// What a datagram begins with, in the sender's byte order: both run on one machine.
struct Stamp {
  uint64_t sent_ns;
  uint32_t flow, number;
};

uint64_t now_ns() { return static_cast<uint64_t>(Clock::now().time_since_epoch() / 1ns); }

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;
};

Endpoint endpoint(const std::string& host, uint16_t port) {
  Endpoint e;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&e.address);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&e.address);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    e.length = sizeof *v4;
  } else if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    e.length = sizeof *v6;
  } else {
    throw std::runtime_error(fmt::format("{}: give an IPv4 or IPv6 address", host));
  }
  return e;
}

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

pxio::Fd open_socket(int family) {
  pxio::Fd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) fail("socket");
  const int bytes = 32 << 20;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0 ||
      setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
    fail("socket buffers, which take CAP_NET_ADMIN");
  return fd;
}

struct SendArguments {
  std::string to;
  uint16_t port = 6000;
  uint32_t size = 1400, flows = 1, burst = 16;
  double mbps = 500, seconds = 5;
};

// Bursts of one flow after the other, evenly spaced. A sender that is late doesn't catch up.
nlohmann::json send(const SendArguments& a) {
  const Endpoint to = endpoint(a.to, a.port);
  std::vector<pxio::Fd> sockets;
  for (uint32_t i = 0; i < a.flows; ++i) {
    sockets.push_back(open_socket(to.address.ss_family));
    if (connect(sockets.back().get(), reinterpret_cast<const sockaddr*>(&to.address), to.length) != 0)
      fail("connect");
  }
  std::vector<uint8_t> bytes(size_t{kBatch} * a.size);
  std::vector<mmsghdr> messages(a.burst);
  std::vector<iovec> parts(a.burst);
  for (uint32_t i = 0; i < a.burst; ++i) {
    parts[i] = {&bytes[size_t{i} * a.size], a.size};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  std::vector<uint32_t> numbers(a.flows);
  uint64_t sent = 0, refused = 0;
  const auto gap = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(a.burst * a.size * 8.0 / (a.mbps * 1e6)));
  const auto begin = Clock::now(), end = begin + std::chrono::duration_cast<Clock::duration>(
                                                     std::chrono::duration<double>(a.seconds));
  auto due = begin;
  for (uint32_t flow = 0; Clock::now() < end; flow = (flow + 1) % a.flows) {
    const uint64_t stamp = now_ns();
    for (uint32_t i = 0; i < a.burst; ++i) {
      const Stamp s{stamp, flow, numbers[flow]++};
      std::memcpy(&bytes[size_t{i} * a.size], &s, sizeof s);
    }
    const int n = sendmmsg(sockets[flow].get(), messages.data(), a.burst, 0);
    sent += static_cast<uint64_t>(std::max(n, 0));
    refused += a.burst - static_cast<uint64_t>(std::max(n, 0));
    due = std::max(due + gap, Clock::now() - gap);
    std::this_thread::sleep_until(due);
  }
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  return {{"datagrams", sent}, {"refused", refused}, {"seconds", took}, {"cpu_s", cpu_seconds()}};
}

class Tally {
 public:
  Tally() { delays_.reserve(kMostSamples); }

  void take(const uint8_t* payload, size_t size) {
    if (size < sizeof(Stamp)) return;
    Stamp s;
    std::memcpy(&s, payload, sizeof s);
    if (s.flow >= kFlows) return;
    ++datagrams;
    bytes += size;
    reordered_ += s.number < next_[s.flow];
    next_[s.flow] = std::max(next_[s.flow], s.number + 1);
    if (delays_.size() < kMostSamples)
      delays_.push_back(
          static_cast<uint32_t>(std::min<uint64_t>(now_ - std::min(s.sent_ns, now_), UINT32_MAX)));
  }
  void now(uint64_t ns) { now_ = ns; }

  nlohmann::json json() {
    std::sort(delays_.begin(), delays_.end());
    const auto at = [&](double q) {
      return delays_.empty()
                 ? 0.0
                 : delays_[static_cast<size_t>(q * static_cast<double>(delays_.size() - 1))] /
                       1000.0;
    };
    return {{"datagrams", datagrams},
            {"bytes", bytes},
            {"reordered", reordered_},
            {"calls", calls},
            {"delay_us", {at(.5), at(.9), at(.99), at(.999), at(1)}}};
  }

  uint64_t datagrams = 0, bytes = 0, calls = 0;

 private:
  static constexpr size_t kFlows = 4096;
  uint64_t now_ = 0, reordered_ = 0;
  std::vector<uint32_t> next_ = std::vector<uint32_t>(kFlows), delays_;
};

struct ReceiveArguments {
  std::string at;
  uint16_t port = 6000, caravan_port = 0;
  bool gro = false;
};

volatile sig_atomic_t g_stop = 0;

// One socket: batches of messages, each a datagram, a batch that UDP_GRO made, or a caravan.
class Receiver {
 public:
  Receiver(const Endpoint& at, bool gro, uint16_t caravan_port)
      : caravan_port_(caravan_port),
        at_(at.address),
        family_(at.address.ss_family == AF_INET ? caravan::Family::kIpv4 : caravan::Family::kIpv6),
        fd_(open_socket(at.address.ss_family)),
        rooms_(kBatch * kRoom),
        controls_(kBatch * kControl) {
    if (bind(fd_.get(), reinterpret_cast<const sockaddr*>(&at.address), at.length) != 0) fail("bind");
    const int on = 1;
    if (gro && setsockopt(fd_.get(), SOL_UDP, UDP_GRO, &on, sizeof on) != 0) fail("UDP_GRO");
  }
  int fd() const { return fd_.get(); }

  void receive(Tally& tally) {
    for (unsigned i = 0; i < kBatch; ++i) {
      parts_[i] = {&rooms_[i * kRoom], kRoom};
      messages_[i] = {};
      messages_[i].msg_hdr.msg_iov = &parts_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
      messages_[i].msg_hdr.msg_name = &from_[i];
      messages_[i].msg_hdr.msg_namelen = sizeof from_[i];
      messages_[i].msg_hdr.msg_control = &controls_[i * kControl];
      messages_[i].msg_hdr.msg_controllen = kControl;
    }
    const int n = recvmmsg(fd_.get(), messages_.data(), kBatch, MSG_DONTWAIT, nullptr);
    ++tally.calls;
    tally.now(now_ns());
    for (int i = 0; i < n; ++i) take(messages_[static_cast<size_t>(i)], tally);
  }

 private:
  static constexpr size_t kControl = CMSG_SPACE(sizeof(int));

  void take(mmsghdr& m, Tally& tally) {
    const auto* p = static_cast<const uint8_t*>(m.msg_hdr.msg_iov->iov_base);
    const size_t length = m.msg_len;
    if (caravan_port_ != 0) {
      caravan::Records records;
      const caravan::Bytes payload(p, length);
      if (caravan::unbundle(payload, family_, caravan_port_, records) != caravan::Refusal::kNone)
        return;
      for (unsigned i = 0; i < records.count; ++i) {
        const caravan::Datagram d = caravan::datagram_of(payload, records.at[i]);
        if (!intact(d.udp, *static_cast<const sockaddr_storage*>(m.msg_hdr.msg_name))) continue;
        tally.take(d.udp.data() + sizeof(udphdr), d.udp.size() - sizeof(udphdr));
      }
      return;
    }
    size_t each = length;
    for (cmsghdr* c = CMSG_FIRSTHDR(&m.msg_hdr); c != nullptr; c = CMSG_NXTHDR(&m.msg_hdr, c)) {
      int size = 0;
      if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO) continue;
      std::memcpy(&size, CMSG_DATA(c), sizeof size);
      if (size > 0) each = static_cast<size_t>(size);
    }
    for (size_t at = 0; at < length; at += each) tally.take(p + at, std::min(each, length - at));
  }

  // The checksum of a datagram in a caravan, which the kernel would have proved of a plain one.
  bool intact(caravan::Bytes udp, const sockaddr_storage& from) const {
    const bool v4 = family_ == caravan::Family::kIpv4;
    const auto of = [v4](const sockaddr_storage& a) {
      return v4 ? reinterpret_cast<const uint8_t*>(
                      &reinterpret_cast<const sockaddr_in&>(a).sin_addr)
                : reinterpret_cast<const uint8_t*>(
                      &reinterpret_cast<const sockaddr_in6&>(a).sin6_addr);
    };
    if (v4 && udp[6] == 0 && udp[7] == 0) return true;
    return pxio::fold(
               caravan::pseudo_sum(family_, of(from), of(at_), static_cast<uint16_t>(udp.size())) +
               pxio::sum_bytes(udp.data(), static_cast<uint32_t>(udp.size()))) == 0xffff;
  }

  const uint16_t caravan_port_;
  const sockaddr_storage at_;
  const caravan::Family family_;
  const pxio::Fd fd_;
  std::vector<uint8_t> rooms_, controls_;
  std::array<mmsghdr, kBatch> messages_;
  std::array<iovec, kBatch> parts_;
  std::array<sockaddr_storage, kBatch> from_;
};

// Until SIGTERM or SIGINT.
nlohmann::json receive(const ReceiveArguments& a) {
  struct sigaction action {};
  action.sa_handler = [](int) { g_stop = 1; };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  std::vector<std::unique_ptr<Receiver>> receivers;
  receivers.push_back(std::make_unique<Receiver>(endpoint(a.at, a.port), a.gro, uint16_t{0}));
  if (a.caravan_port != 0)
    receivers.push_back(
        std::make_unique<Receiver>(endpoint(a.at, a.caravan_port), false, a.caravan_port));
  std::vector<pollfd> fds;
  for (const auto& r : receivers) fds.push_back({r->fd(), POLLIN, 0});
  Tally tally;
  fmt::print("ready\n");
  std::fflush(stdout);
  const double before = cpu_seconds();
  while (g_stop == 0) {
    if (poll(fds.data(), fds.size(), 100) <= 0) continue;
    for (size_t i = 0; i < fds.size(); ++i)
      if (fds[i].revents != 0) receivers[i]->receive(tally);
  }
  const double cpu = cpu_seconds() - before;
  nlohmann::json j = tally.json();
  j["cpu_s"] = cpu;
  return j;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Sends UDP datagrams at a rate, or receives them, and says in JSON what it cost and how long "
      "they were "
      "under way. Both ends on one machine.",
      "pxdgram");
  app.require_subcommand(1);
  SendArguments s;
  CLI::App* send_command = app.add_subcommand("send", "datagrams to an address");
  send_command->add_option("to", s.to, "address")->required();
  send_command->add_option("--port", s.port, "UDP port")->capture_default_str();
  send_command->add_option("--size", s.size, "bytes of payload")
      ->check(CLI::Range(16, 65000))
      ->capture_default_str();
  send_command->add_option("--flows", s.flows, "source ports")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  send_command->add_option("--burst", s.burst, "datagrams sent at once")
      ->check(CLI::Range(1u, kBatch))
      ->capture_default_str();
  send_command->add_option("--mbps", s.mbps, "rate of payload, Mb/s")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str();
  send_command->add_option("--seconds", s.seconds, "for how long")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  ReceiveArguments r;
  CLI::App* receive_command = app.add_subcommand("receive", "until SIGTERM; says \"ready\" first");
  receive_command->add_option("at", r.at, "address")->required();
  receive_command->add_option("--port", r.port, "UDP port")->capture_default_str();
  receive_command->add_flag("--gro", r.gro, "take batches (UDP_GRO)");
  receive_command->add_option("--caravans", r.caravan_port, "take caravans, too, at this port");
  if (const auto ends = bench::parse(app, argc, argv)) return *ends;
  try {
    fmt::print("{}\n", (*send_command ? send(s) : receive(r)).dump());
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "pxdgram: {}\n", e.what());
    return 1;
  }
}
