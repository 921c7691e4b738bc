// SPDX-License-Identifier: BSD-3-Clause
// pxnic: a NIC in software between a DPDK driver (net_virtio_user) and a TAP device, which is its
// wire.
#include <fmt/format.h>
#include <poll.h>
#include <rte_eal.h>
#include <rte_pause.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/nic/nic.h"
#include "bench/nic/tap.h"
#include "pxio/ctl/eal.h"

namespace {

using softnic::LroOptions;

volatile std::sig_atomic_t ending = 0;

struct Options {
  std::string socket;
  uint16_t queues = 1;
  softnic::TapOptions tap;
  softnic::NicOptions nic;
  uint32_t lro_timeout_us = 32;
  bool json = false;
};

pxio::Nanos now() { return std::chrono::steady_clock::now().time_since_epoch(); }

// An option with two words to choose from.
template <typename T>
void add_choice(CLI::App& app, const char* name, T& value, const char* yes, T yes_value,
                const char* no, T no_value, const char* text) {
  app.add_option_function<std::string>(
         name,
         [=, &value](const std::string& word) {
           if (word != yes && word != no)
             throw CLI::ValidationError(name,
                                        fmt::format("{} or {} is wanted, not {}", yes, no, word));
           value = word == yes ? yes_value : no_value;
         },
         text)
      ->type_name(fmt::format("{}|{}", yes, no));
}

void add_options(CLI::App& app, Options& o) {
  using Push = LroOptions::Push;
  app.add_option("--socket", o.socket,
                 "path of the socket for the driver: net_virtio_user0,path=...")
      ->required()
      ->type_name("PATH");
  app.add_option("--tap", o.tap.name,
                 "name of the TAP device to be made, whose host is the wire's other end")
      ->required()
      ->type_name("NAME");
  app.add_option("--netns", o.tap.netns, "network namespace of the TAP device; default: this one")
      ->type_name("NAME");
  app.add_option("--mtu", o.nic.mtu, "largest IP packet on the wire; default 1500")
      ->check(CLI::Range(68, 65000))
      ->type_name("BYTES");
  add_choice(app, "--tap-offloads", o.tap.offloads, "on", true, "off", false,
             "on: the host leaves TCP uncut and checksums unfinished; default off");
  app.add_option("--queues", o.queues, "pairs of queues, shared by flow hash; default 1")
      ->check(CLI::Range(1, 16))
      ->type_name("N");
  add_choice(app, "--lro", o.nic.lro.on, "on", true, "off", false,
             "merge what comes from the wire, where the driver enables it; default on");
  app.add_option("--lro-contexts", o.nic.lro.contexts, "flows that are merged at once; default 64")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  app.add_option("--lro-timeout-us", o.lro_timeout_us,
                 "time for which segments are held; default 32")
      ->check(CLI::Range(1, 1000000))
      ->type_name("US");
  app.add_option("--lro-max", o.nic.lro.max_bytes, "largest merged IP packet; default 9000")
      ->check(CLI::Range(100, 65535))
      ->type_name("BYTES");
  add_choice(app, "--lro-psh", o.nic.lro.push, "end", Push::kEnd, "alone", Push::kAlone,
             "a segment with PSH is merged and ends it, or comes alone; default end");
  app.add_flag("--json", o.json, "print the counters as JSON at the end");
}

// While nothing moves, a frame from the wire ends the sleep at once, one from the driver is noticed
// at its end: 30 us for a start, half a millisecond after a while.
class Idle {
 public:
  explicit Idle(int fd) : fd_(fd) {}
  void wait(bool busy, bool holds) {
    if (busy) {
      empty_ = 0;
    } else if (holds || empty_ < kPolls) {
      empty_ += !holds;
      rte_pause();
    } else {
      const bool long_idle = empty_ == kLong;
      empty_ += !long_idle;
      pollfd p{fd_, POLLIN, 0};
      const timespec t{0, long_idle ? 500'000 : 30'000};
      ppoll(&p, 1, &t, nullptr);
    }
  }

 private:
  static constexpr int kPolls = 32, kLong = 2000;
  int fd_;
  int empty_ = 0;
};

void carry(softnic::Nic& nic, softnic::Tap& tap) {
  constexpr int kFramesATurn = 64;
  Idle idle(tap.fd());
  while (ending == 0) {
    bool busy = false;
    for (int i = 0; i < kFramesATurn && nic.ready(); ++i) {
      const auto r = tap.receive();
      if (r.frame.empty()) break;
      busy = true;
      if (r.segsz != 0) {
        nic.from_wire_uncut(r.frame, r.segsz, now());
      } else {
        nic.from_wire(r.frame, now());
      }
    }
    busy |= nic.poll(now());
    idle.wait(busy || !nic.ready(), nic.holds());
  }
  nic.drain();
}

void print(const softnic::Counters& c, bool json) {
  nlohmann::ordered_json j;
  for (const auto& [name, value] : softnic::named(c)) j[name] = value;
  j["unaccounted"] = softnic::unaccounted(c);
  if (json) {
    fmt::print("{}\n", j.dump());
    return;
  }
  for (const auto& [name, value] : j.items())
    if (value != 0) fmt::print("{:<20}{}\n", name, value.get<int64_t>());
}

int run(Options& o) {
  o.tap.mtu = o.nic.mtu;
  o.nic.lro.timeout = std::chrono::microseconds(o.lro_timeout_us);
  struct sigaction end {};
  end.sa_handler = [](int) { ending = 1; };
  sigaction(SIGTERM, &end, nullptr);
  sigaction(SIGINT, &end, nullptr);
  prctl(PR_SET_TIMERSLACK, 1);
  softnic::Tap tap(o.tap);
  pxio::EalOptions eal;
  eal.memory_mb = 96;
  pxio::start_eal(eal);
  softnic::Counters counters;
  uint32_t missing = 0;
  {
    // The driver's rings may hold all of a queue's packets in the NIC's buffers.
    pxio::BufferPools pools(16384, 64);
    {
      softnic::VhostPort driver("net_vhost0", o.socket, o.queues, pools.buffers().small);
      softnic::Nic nic(o.nic, driver, pools.buffers().small,
                       [&](softnic::Frame f) { return tap.send(f); });
      fmt::print("ready\n");
      std::fflush(stdout);
      carry(nic, tap);
      counters = nic.counters();
    }
    missing = pools.in_use();
  }
  rte_eal_cleanup();
  print(counters, o.json);
  if (counters.wire_too_big != 0)
    fmt::print(stderr, "pxnic: {} frames above the wire's MTU of {} were dropped\n",
               counters.wire_too_big, o.nic.mtu);
  if (missing != 0) fmt::print(stderr, "pxnic: {} buffers were lost\n", missing);
  return counters.wire_too_big != 0 || counters.tso_bad != 0 || missing != 0 ||
         softnic::unaccounted(counters) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "A NIC with LRO and TSO in software, for tests and measurements. DPDK's net_virtio_user is "
      "its driver, "
      "a TAP device its wire. Start it before the driver; it ends on SIGTERM or SIGINT and prints "
      "what it "
      "counted. Exit status 1: the driver sent frames that the wire can't take, or something was "
      "lost.",
      "pxnic");
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
    return run(options);
  } catch (const CLI::Success& e) {  // --help
    return app.exit(e);
  } catch (const std::exception& e) {
    std::string text = e.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    fmt::print(stderr, "pxnic: {}\n", text);
    return 2;
  }
}
