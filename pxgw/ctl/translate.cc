// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/translate.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include "pxgw/ctl/capture.h"
#include "pxgw/ctl/config.h"
#include "pxio/ctl/eal.h"

namespace pxgw {
namespace {

using Clock = std::chrono::steady_clock;

// Of the small buffers the merger holds half at most, and a quarter is kept for what the largest
// burst is split into. They make about 50 MB.
constexpr uint32_t kSmallBuffers = 16384 - 1, kLargeBuffers = 1024 - 1, kHeld = 2048;
constexpr uint32_t kMemoryMb = 96;

volatile std::sig_atomic_t g_signal = 0;

// SIGINT and SIGTERM end the work in order, so that nothing half written stays behind.
class SignalGuard {
 public:
  SignalGuard() {
    struct sigaction action {};
    action.sa_handler = [](int signal) { g_signal = signal; };
    sigaction(SIGINT, &action, &old_int_);
    sigaction(SIGTERM, &action, &old_term_);
  }
  ~SignalGuard() {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

struct Interrupted {};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A line on the terminal that is drawn over; nothing for small files, or where stderr isn't a
// terminal.
class Progress {
 public:
  Progress(const CaptureReader& in, bool quiet)
      : in_(in), wanted_(!quiet && ::isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (drawn_) fmt::print(stderr, "\r\x1b[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update() {
    constexpr uint64_t kLarge = 50'000'000;
    constexpr double kPatience = 1, kInterval = 0.1;
    if (!wanted_) return;
    const double t = seconds_since(start_);
    if (t < next_ || (in_.size() < kLarge && t < kPatience)) return;
    next_ = t + kInterval;
    drawn_ = true;
    const auto done = static_cast<double>(in_.position());
    const auto size = static_cast<double>(in_.size());
    if (in_.size() == 0) {
      fmt::print(stderr, "\r{}, {:.2f} GB/s\x1b[K", human_bytes(done), done / t / 1e9);
      return;
    }
    constexpr size_t kWidth = 30;
    const double share = std::min(done / size, 1.0);
    const auto full = static_cast<size_t>(share * kWidth);
    fmt::print(stderr, "\r[{:<{}}] {:>3.0f} %  {} of {}, {:.2f} GB/s, {:.0f} s left\x1b[K",
               std::string(full, '#'), kWidth, share * 100, human_bytes(done), human_bytes(size),
               done / t / 1e9, done > 0 ? t * (size - done) / done : 0.0);
  }

 private:
  const CaptureReader& in_;
  const bool wanted_;
  bool drawn_ = false;
  double next_ = 0;
  const Clock::time_point start_ = Clock::now();
};

void check_range(const char* option, uint32_t value, uint32_t low, uint32_t high) {
  if (value < low || value > high)
    throw std::runtime_error(fmt::format("{} {}: must be {} ... {}", option, value, low, high));
}

// A file that is written whole or not at all.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path)
      : path_(path), temporary_(fmt::format("{}.tmp.{}", path, ::getpid())) {}
  ~JsonFile() {
    if (!temporary_.empty()) std::remove(temporary_.c_str());
  }
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  void write(const std::string& text) {
    struct stat st {};
    if (::stat(path_.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) temporary_.clear();
    FILE* f = std::fopen(temporary_.empty() ? path_.c_str() : temporary_.c_str(), "we");
    if (f == nullptr) fail();
    const bool ok = std::fwrite(text.data(), 1, text.size(), f) == text.size();
    if (std::fclose(f) != 0 || !ok) fail();
  }
  void commit() {
    if (temporary_.empty()) return;
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
    temporary_.clear();
  }

 private:
  [[noreturn]] void fail() const {
    throw std::runtime_error(fmt::format("{}: can't be written: {}", path_, std::strerror(errno)));
  }
  std::string path_, temporary_;
};

ReplayTotals replay(const TranslateOptions& o, pxio::Buffers buffers, CaptureReader& in,
                    CaptureWriter& out) {
  const Policy policy = [&] {
    Policy p = make_policy(o);
    p.link = in.link();
    return p;
  }();
  Capacity capacity;
  capacity.flows = o.flows;
  capacity.held = kHeld;
  Progress progress(in, o.quiet);
  Replay replay(in, out, policy, capacity, buffers);
  return replay.run([&] {
    if (g_signal != 0) throw Interrupted{};
    progress.update();
  });
}

void run(const TranslateOptions& o) {
  make_policy(o);  // mistakes on the command line show before anything is opened
  check_different(o.in, o.out);
  if (o.json && !o.json->empty()) {
    check_different(o.in, *o.json);
    if (*o.json == o.out) throw CaptureError(o.out + ": is the capture's and the JSON's name");
  }
  const SignalGuard signals;
  CaptureReader in(o.in);  // nor does a wrong file wait for EAL
  pxio::EalOptions eal;
  eal.pages = pxio::EalOptions::Pages::kNone;
  eal.memory_mb = kMemoryMb;
  pxio::start_eal(eal);
  const pxio::BufferPools pools(kSmallBuffers, kLargeBuffers);
  const auto start = Clock::now();
  const ReplayTotals totals = translate(o, in, pools.buffers());
  if (o.json && o.json->empty()) {
    fmt::print("{}\n", to_json(o, totals).dump(2));
  } else if (!o.quiet) {
    fmt::print("{}", summary(o, totals, seconds_since(start)));
  }
}

}  // namespace

Policy make_policy(const TranslateOptions& o) {
  constexpr uint32_t kHighestMtu = 65535;
  constexpr uint32_t kLongestHoldUs = 1'000'000;
  constexpr uint32_t kLowestMss = 536, kHighestMss = 65495;
  check_range("--outside-mtu", o.outside_mtu, kMinMtu, kHighestMtu);
  check_range("--inside-mtu", o.inside_mtu, kMinMtu, kHighestMtu);
  if (o.inside_mtu <= o.outside_mtu) {
    throw std::runtime_error(fmt::format("--inside-mtu {}: must be above the outside MTU, {}",
                                         o.inside_mtu, o.outside_mtu));
  }
  check_range("--hold-us", o.hold_us, 0, kLongestHoldUs);
  check_range("--flows", o.flows, 1, 1u << 24);
  Policy p;
  if (o.inside_mss != 0) {
    check_range("--inside-mss", o.inside_mss, kLowestMss, kHighestMss);
    p.assume_inside_mss = static_cast<uint16_t>(o.inside_mss);
  }
  p.inside_mtu = static_cast<uint16_t>(o.inside_mtu);
  p.outside_mtu = static_cast<uint16_t>(o.outside_mtu);
  p.hold_limit = std::chrono::microseconds(o.hold_us);
  p.sides = Sides::kByPrefix;
  for (const std::string& text : o.internal) {
    try {
      p.include.push_back(parse_prefix(text));
    } catch (const std::invalid_argument& e) {
      throw std::runtime_error(fmt::format("--internal: {}", e.what()));
    }
  }
  if (p.include.empty()) throw std::runtime_error("--internal: name at least one inside prefix");
  return p;
}

ReplayTotals translate(const TranslateOptions& o, CaptureReader& in, pxio::Buffers buffers) {
  CaptureWriter out(o.out, in.linktype());
  const ReplayTotals totals = replay(o, buffers, in, out);
  std::optional<JsonFile> json;
  if (o.json && !o.json->empty()) json.emplace(*o.json).write(to_json(o, totals).dump(2) + "\n");
  out.commit();
  if (json) json->commit();
  return totals;
}

Json to_json(const TranslateOptions& o, const ReplayTotals& t) {
  Json j;
  j["in"] = {{"file", o.in}, {"packets", t.in_pkts}, {"bytes", t.in_bytes}};
  j["out"] = {{"file", o.out}, {"packets", t.out_pkts}, {"bytes", t.out_bytes}};
  j["seconds_of_capture"] = std::chrono::duration<double>(t.last - t.first).count();
  j["cut_by_snaplen"] = t.cut_pkts;
  j["stamps_stepped_back"] = t.stepped_back;
  j["options"] = {{"inside_mtu", o.inside_mtu},
                  {"outside_mtu", o.outside_mtu},
                  {"hold_us", o.hold_us},
                  {"internal", o.internal}};
  j["options"]["inside_mss"] = o.inside_mss != 0 ? Json(o.inside_mss) : Json(nullptr);
  j.update(to_json(t.counters));
  return j;
}

std::string summary(const TranslateOptions& o, const ReplayTotals& t, double seconds) {
  std::string s = fmt::format(
      "{}: {} packets, {}, over {:.3f} s\n{}: {} packets, {} (made in {:.2f} s, {:.2f} GB/s)\n",
      o.in, with_commas(t.in_pkts), human_bytes(static_cast<double>(t.in_bytes)),
      std::chrono::duration<double>(t.last - t.first).count(), o.out, with_commas(t.out_pkts),
      human_bytes(static_cast<double>(t.out_bytes)), seconds,
      static_cast<double>(t.in_bytes) / std::max(seconds, 1e-9) / 1e9);
  if (t.cut_pkts != 0) {
    s += fmt::format(
        "Note: {} packets were cut by the capture's snaplen; TCP among them passed as it "
        "was (capture with 'tcpdump -s 0').\n",
        with_commas(t.cut_pkts));
  }
  if (t.stepped_back != 0) {
    s += fmt::format(
        "Note: {} stamps lie before the one ahead of them; such packets count as arrived "
        "with it.\n",
        with_commas(t.stepped_back));
  }
  const Counters& c = t.counters;
  if (!o.inside_mss && c.pass_tcp_small_mss > (c.engine.merge_in_segs + 1) / 2) {
    s += "Note: most inside hosts of this capture advertised a small MSS; --inside-mss 8960 shows "
         "what "
         "jumbos would change.\n";
  }
  return s + "\n" + summary(t.counters);
}

CLI::App* add_translate(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<TranslateOptions>();
  auto json = std::make_shared<std::string>();
  CLI::App* cmd = app.add_subcommand(
      "translate",
      "Reads a capture (pcap or pcapng; Ethernet or raw IP), translates it as the gateway would "
      "have, with\n"
      "the capture's stamps as time, and writes what would have left. OUT is always a pcap with\n"
      "nanosecond stamps, also where IN is a pcapng: the library behind it writes no pcapng.");
  cmd->add_option("IN", o->in, "capture to read")->required();
  cmd->add_option("OUT", o->out, "capture to write; replaced only once it is complete")->required();
  cmd->add_option(
         "--internal", o->internal,
         "inside prefixes, IPv4 and IPv6: what comes from elsewhere and goes there is inbound")
      ->required()
      ->delimiter(',')
      ->type_name("PREFIX");
  cmd->add_option("--inside-mtu", o->inside_mtu, "largest IP packet inside")->capture_default_str();
  cmd->add_option("--outside-mtu", o->outside_mtu, "largest IP packet outside")
      ->capture_default_str();
  cmd->add_option("--hold-us", o->hold_us, "how long a packet may be held, in microseconds")
      ->capture_default_str();
  cmd->add_option("--inside-mss", o->inside_mss,
                  "what if: take inside hosts to have advertised this MSS, 8960 for instance");
  cmd->add_option("--flows", o->flows, "flows known at once at most")->capture_default_str();
  CLI::Option* json_option =
      cmd->add_option("--json", *json, "figures as JSON, to FILE or instead of the summary")
          ->expected(0, 1)
          ->type_name("[FILE]");
  cmd->add_flag("-q,--quiet", o->quiet, "no summary, no progress bar");
  cmd->footer(
      "Exit status: 0 done, 2 refused or failed (one line says why, and OUT is as it was).");
  cmd->callback([o, json, json_option, &exit_code] {
    if (json_option->count() > 0) o->json = *json;
    const auto interrupted = [&] {
      fmt::print(stderr, "pxgw translate: interrupted; {} is as it was\n", o->out);
      exit_code = 128 + g_signal;
    };
    try {
      run(*o);
      exit_code = 0;
    } catch (const Interrupted&) {
      interrupted();
    } catch (const std::bad_alloc&) {
      fmt::print(stderr, "pxgw translate: not enough memory; try a smaller --flows\n");
      exit_code = 2;
    } catch (const std::exception& e) {
      if (g_signal != 0) return interrupted();  // it broke a system call
      fmt::print(stderr, "pxgw translate: {}\n", e.what());
      exit_code = 2;
    }
  });
  return cmd;
}

}  // namespace pxgw
