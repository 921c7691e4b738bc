// SPDX-License-Identifier: BSD-3-Clause
// pxbench: the command line. See docs/performance.md.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/command_line.h"
#include "bench/machine.h"
#include "bench/report.h"
#include "bench/run.h"
#include "bench/scale.h"
#include "bench/simulate.h"
#include "pxio/ctl/eal.h"

namespace {

using Json = nlohmann::json;
using bench::Lines;
using bench::Work;

struct RunArguments {
  std::vector<std::string> work{"merge"}, lines{"warm", "packet-dram", "other-core", "all-dram"};
  std::vector<uint32_t> flows{1, 64, 1024, 16384, 65536}, arrival{1};
  int ip = 4;
  bench::Options options;
};

struct ScaleArguments {
  std::vector<uint32_t> flows{64, 1024, 16384};
  bench::ScaleOptions options;
};

struct LoadArguments {
  std::vector<uint32_t> flows{16384};
  std::vector<double> hold_us{10, 20, 50, 100, 200, 500}, mpps{10};
  std::vector<double> gbps{10, 25, 40, 100};
  double ns_per_packet = 80, line_gbps = 400;
  bool lone = false;
};

template <typename T, size_t N>
std::map<std::string, T> by_name(const std::pair<const char*, T> (&names)[N]) {
  return {std::begin(names), std::end(names)};
}

template <typename T>
std::vector<std::string> keys(const std::map<std::string, T>& m) {
  std::vector<std::string> r;
  for (const auto& [k, v] : m) r.push_back(k);
  return r;
}

const std::map<std::string, Work> kWorks = by_name(bench::kWorks);
const std::map<std::string, Lines> kLines = by_name(bench::kLines);

void progress(const std::string& text) {
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K{}", text);
}

Json to_json(const bench::Result& r) {
  Json j = {{"work", bench::name_in(bench::kWorks, r.what.work)}, {"flows", r.what.flows}, {"arrival", r.what.run},
            {"lines", bench::name_in(bench::kLines, r.what.lines)}, {"ip", r.what.version}, {"packet_bytes", r.packet_bytes},
            {"cycles", r.cycles}};
  if (r.yield >= 0) j["yield"] = r.yield;
  return j;
}

// Writes beside the file, then renames.
void store(const std::string& file, const Json& j) {
  const std::string part = file + ".part";
  std::ofstream out(part);
  out << j.dump(1) << "\n";
  out.close();
  if (!out || std::rename(part.c_str(), file.c_str()) != 0)
    throw std::runtime_error(fmt::format("{} can't be written; give another path", file));
}

Json run(const RunArguments& a) {
  std::vector<bench::Case> cases;
  for (const auto& w : a.work)
    for (const auto& l : a.lines)
      for (uint32_t r : a.arrival)
        for (uint32_t f : a.flows) cases.push_back({kWorks.at(w), f, r, kLines.at(l), a.ip});
  Json results = Json::array();
  fmt::print("{}\n", bench::table_head());
  for (size_t i = 0; i < cases.size(); ++i) {
    progress(fmt::format("{}/{} {}", i + 1, cases.size(), cases[i].name()));
    results.push_back(to_json(bench::measure(cases[i], a.options)));
    progress("");
    fmt::print("{}\n", bench::table_row(results.back(), bench::tsc_hz()));
    std::fflush(stdout);
  }
  return results;
}

Json scale(const ScaleArguments& a) {
  if (a.options.cpus[0] == a.options.cpus[1]) throw std::runtime_error("two workers want two CPUs: --cpu and --other-cpu");
  Json results = Json::array();
  fmt::print("{}\n", bench::scale_head());
  for (uint32_t flows : a.flows) {
    progress(fmt::format("{} flows", flows));
    bench::ScaleOptions o = a.options;
    o.flows = flows;
    const bench::Scale s = bench::measure_scale(o);
    progress("");
    results.push_back({{"flows", flows}, {"cycles", s.cycles}, {"speed_up", s.speed_up}});
    fmt::print("{}\n", bench::scale_row(results.back()));
    std::fflush(stdout);
  }
  return results;
}

Json load(const LoadArguments& a) {
  Json results = Json::array();
  fmt::print("| flows | Mpps | hold us | yield | mean bytes | delay us: median | 99th | largest |\n|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (uint32_t flows : a.flows) {
    for (double mpps : a.mpps) {
      for (double hold : a.hold_us) {
        progress(fmt::format("{} flows, {} Mpps, {} us", flows, mpps, hold));
        bench::LoadOptions o;
        o.flows = flows;
        o.pkts_per_s = mpps * 1e6;
        o.hold = pxio::Nanos(static_cast<int64_t>(hold * 1000));
        o.ns_per_packet = a.ns_per_packet;
        o.lone = a.lone;
        o.gbps = a.gbps;
        o.line_gbps = a.line_gbps;
        const bench::Load r = bench::simulate(o);
        progress("");
        fmt::print("| {} | {:.1f} | {:.0f} | {:.1f} % | {:.0f} | {:.1f} | {:.1f} | {:.1f} |\n", flows, mpps, hold, r.yield * 100,
                   r.mean_size, r.delay_us[0], r.delay_us[1], r.delay_us[2]);
        std::fflush(stdout);
        results.push_back({{"flows", flows}, {"mpps", mpps}, {"hold_us", hold}, {"yield", r.yield},
                           {"mean_bytes", r.mean_size}, {"delay_us", r.delay_us}, {"ns_per_packet", a.ns_per_packet},
                           {"lone", a.lone}, {"gbps", a.gbps}, {"line_gbps", a.line_gbps}});
      }
    }
  }
  return results;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures the PacketExpress engine: cycles a packet, yield and delay, beside what no engine can beat "
               "and what DPDK's own libraries need for the same packets.", "pxbench");
  app.require_subcommand(1);
  uint32_t memory = 2400;
  std::string file;

  RunArguments r;
  CLI::App* run_command = app.add_subcommand("run", "cycles a packet, in one run with floor and peers");
  run_command->add_option("--work", r.work, "what is done")->delimiter(',')->check(CLI::IsMember(keys(kWorks)))->capture_default_str();
  run_command->add_option("--lines", r.lines, "where cache lines are")->delimiter(',')->check(CLI::IsMember(keys(kLines)))->capture_default_str();
  run_command->add_option("--flows", r.flows, "flows")->delimiter(',')->check(CLI::Range(1, 131072))->capture_default_str();
  run_command->add_option("--arrival", r.arrival, "segments of a flow in a row; 0: heavy-tailed mix")->delimiter(',')->check(CLI::Range(0, 1024))->capture_default_str();
  run_command->add_option("--ip", r.ip, "IP version")->check(CLI::IsMember({4, 6}))->capture_default_str();
  run_command->add_option("--rounds", r.options.rounds, "rounds, in which subjects take turns")->check(CLI::Range(1, 1000))->capture_default_str();
  run_command->add_option("--packets", r.options.packets, "packets a round")->check(CLI::Range(32768, 1 << 28))->capture_default_str();
  run_command->add_option("--cpu", r.options.worker_cpu, "CPU of the worker")->capture_default_str();
  run_command->add_option("--writer-cpu", r.options.writer_cpu, "CPU that writes packets, for other-core")->capture_default_str();
  run_command->add_flag("!--no-peers", r.options.peers, "engine and floor only");

  LoadArguments l;
  CLI::App* load_command = app.add_subcommand("load", "yield and delay under a load, in simulated time");
  load_command->add_option("--flows", l.flows, "flows")->delimiter(',')->check(CLI::Range(1, 131072))->capture_default_str();
  load_command->add_option("--hold", l.hold_us, "hold limits in us")->delimiter(',')->check(CLI::Range(0.0, 10000.0))->capture_default_str();
  load_command->add_option("--mpps", l.mpps, "offered load in million packets a second")->delimiter(',')->check(CLI::Range(0.001, 200.0))->capture_default_str();
  load_command->add_option("--ns", l.ns_per_packet, "time that the worker needs for a packet")->check(CLI::Range(1.0, 10000.0))->capture_default_str();
  load_command->add_option("--gbps", l.gbps, "speeds of the senders' bottlenecks, one drawn for each flow")->delimiter(',')->check(CLI::Range(0.01, 400.0))->capture_default_str();
  load_command->add_option("--line", l.line_gbps, "speed of the line in Gb/s")->check(CLI::Range(1.0, 1600.0))->capture_default_str();
  load_command->add_flag("--lone", l.lone, "lone segments instead of the mix");

  ScaleArguments w;
  CLI::App* scale_command = app.add_subcommand("scale", "two workers on two cores against one, everything in DRAM");
  scale_command->add_option("--flows", w.flows, "flows")->delimiter(',')->check(CLI::Range(16, 131072))->capture_default_str();
  scale_command->add_option("--rounds", w.options.rounds, "rounds, in which all take turns")->check(CLI::Range(1, 1000))->capture_default_str();
  scale_command->add_option("--packets", w.options.packets, "packets a round, of each")->check(CLI::Range(32768, 1 << 28))->capture_default_str();
  scale_command->add_option("--cpu", w.options.cpus[0], "CPU of the first worker")->capture_default_str();
  scale_command->add_option("--other-cpu", w.options.cpus[1], "CPU of the second worker")->capture_default_str();

  for (CLI::App* c : {run_command, load_command, scale_command}) {
    c->add_option("--json", file, "write the results to this file, too");
    c->add_option("--memory", memory, "MB for buffers")->capture_default_str();
  }
  std::vector<std::string> files;
  std::string out = ".";
  CLI::App* report_command = app.add_subcommand("report", "tables, on standard output, and plots of stored results");
  report_command->add_option("files", files, "what --json wrote")->required()->check(CLI::ExistingFile);
  report_command->add_option("--plots", out, "folder for the plots (SVG, made by gnuplot)")->check(CLI::ExistingDirectory)->capture_default_str();
  if (const auto ends = bench::parse(app, argc, argv)) return *ends;
  try {
    if (*report_command) return bench::report(files, out);
    pxio::EalOptions eal;
    eal.memory_mb = memory;
    const std::string pages = pxio::start_eal(eal);
    const Json machine = bench::describe_machine(pages);
    fmt::print("{}; {}; {}\n\n", machine["cpu"].get<std::string>(), pages, machine["dpdk"].get<std::string>());
    const Json results = *run_command ? run(r) : *scale_command ? scale(w) : load(l);
    const char* kind = *run_command ? "run" : *scale_command ? "scale" : "load";
    if (!file.empty()) store(file, {{"machine", machine}, {"kind", kind}, {"results", results}});
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "pxbench: {}\n", e.what());
    return 1;
  }
}
