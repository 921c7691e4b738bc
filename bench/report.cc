// SPDX-License-Identifier: BSD-3-Clause
#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>

#include "bench/run.h"

namespace bench {

using Json = nlohmann::json;

namespace {

std::string figure(const Json& rounds) {
  auto v = rounds.get<std::vector<double>>();
  const auto [low, high] = std::minmax_element(v.begin(), v.end());
  return fmt::format("{:.0f} ({:.0f}-{:.0f})", median(v), *low, *high);
}

double mid(const Json& result, const char* subject) {
  return median(result["cycles"][subject].get<std::vector<double>>());
}

std::string arrival(const Json& r) {
  const auto run = r["arrival"].get<uint32_t>();
  return run == 0 ? "mix" : run == 1 ? "one by one" : fmt::format("runs of {}", run);
}

// A pipe to gnuplot.
class Plot {
 public:
  explicit Plot(const std::string& file) : pipe_(popen("gnuplot", "w")) {
    if (pipe_ == nullptr) throw std::runtime_error("gnuplot can't be started; install gnuplot-nox");
    send("set terminal svg size 760,440 font 'sans,12' background 'white'\nset output '" + file + "'\nset grid\nset key outside\n");
  }
  void send(const std::string& text) { std::fputs(text.c_str(), pipe_); }
  void close() {
    if (pclose(pipe_) != 0) throw std::runtime_error("gnuplot failed; is gnuplot-nox installed?");
  }

 private:
  std::FILE* pipe_;
};

using Series = std::map<std::string, std::map<double, double>>;

void draw(const std::string& file, const std::string& axes, const Series& series) {
  Plot plot(file);
  std::string what;
  for (const auto& [name, points] : series)
    what += fmt::format("{} '-' with linespoints title '{}'", what.empty() ? "plot" : ",", name);
  plot.send(axes + what + "\n");
  for (const auto& [name, points] : series) {
    for (const auto& [x, y] : points) plot.send(fmt::format("{} {}\n", x, y));
    plot.send("e\n");
  }
  plot.close();
}

void plot_run(const Json& results, const std::string& folder) {
  std::map<std::string, Series> by_file;
  for (const Json& r : results) {
    const std::string work = r["work"].get<std::string>();
    for (const auto& [subject, rounds] : r["cycles"].items()) {
      if (subject == "gro" && r["flows"].get<uint32_t>() > 64) continue;  // off the scale
      by_file[work + "-" + r["lines"].get<std::string>()][subject + ", " + arrival(r)][r["flows"].get<double>()] =
          median(rounds.get<std::vector<double>>());
    }
  }
  for (const auto& [name, series] : by_file)
    draw(folder + "/" + name + ".svg",
         "set logscale x 2\nset yrange [0:*]\nset xlabel 'flows'\nset ylabel 'TSC cycles a packet'\n", series);
}

void plot_load(const Json& results, const std::string& folder) {
  Series yields, delays;
  for (const Json& r : results) {
    const std::string name = fmt::format("{} flows, {} Mpps", r["flows"].get<uint32_t>(), r["mpps"].get<double>());
    yields[name][r["hold_us"].get<double>()] = r["yield"].get<double>() * 100;
    delays[name][r["hold_us"].get<double>()] = r["delay_us"][1].get<double>();
  }
  const std::string x = "set logscale x\nset xlabel 'hold limit, us'\n";
  draw(folder + "/yield.svg", x + "set ylabel 'yield, %'\nset yrange [*:100]\n", yields);
  draw(folder + "/delay.svg", x + "set ylabel 'added delay, 99th percentile, us'\nset logscale y\n", delays);
}

// What bench/caravans.py writes.
constexpr const char* kParts[] = {"kernel", "caravand", "program"};

template <typename Of>
double median_of(const Json& result, Of of) {
  std::vector<double> v;
  for (const Json& r : result["rounds"]) v.push_back(of(r));
  return median(std::move(v));
}

double part_of(const Json& result, const char* part) {
  return median_of(result, [part](const Json& r) { return r["cpu_s_per_gb"].value(part, 0.0); });
}

double whole_of(const Json& result) {
  return median_of(result, [](const Json& r) {
    double sum = 0;
    for (const auto& [part, seconds] : r["cpu_s_per_gb"].items()) sum += seconds.template get<double>();
    return sum;
  });
}

double delay_of(const Json& result, size_t at) {
  return median_of(result, [at](const Json& r) { return r["delay_us"][at].get<double>(); });
}

void table_caravans(const Json& results) {
  fmt::print("| arrives | offered, Mb/s | Gb/s | packets a datagram | CPU s/GB: kernel | caravand | program | all | "
             "less by | delay us: median | 90 % | 99 % | 99.9 % |\n"
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  std::map<int, double> first;  // of each rate
  uint64_t sent = 0, lost = 0, overtaken = 0;
  for (const Json& r : results) {
    const int mbps = r["mbps"].get<int>();
    const double whole = whole_of(r);
    fmt::print("| {} | {} | {:.2f} | {:.3f} |", r["name"].get<std::string>(), mbps,
               median_of(r, [](const Json& x) { return x["gbps"].template get<double>(); }),
               median_of(r, [](const Json& x) { return x["packets_a_datagram"].template get<double>(); }));
    for (const char* part : kParts) fmt::print(" {:.2f} |", part_of(r, part));
    fmt::print(" {:.2f} | {:.1f} x |", whole, first.try_emplace(mbps, whole).first->second / whole);
    for (size_t i = 0; i < 4; ++i) fmt::print(" {:.0f} |", delay_of(r, i));
    fmt::print("\n");
    for (const Json& x : r["rounds"]) {
      sent += x["sent"].get<uint64_t>();
      lost += static_cast<uint64_t>(std::max<int64_t>(0, x["lost"].get<int64_t>()));
      overtaken += x["reordered"].get<uint64_t>();
    }
  }
  fmt::print("\n{} datagrams sent, {} lost, {} overtaken\n", sent, lost, overtaken);
}

void plot_caravans(const Json& results, const std::string& folder) {
  std::map<int, std::vector<const Json*>> by_rate;
  for (const Json& r : results) by_rate[r["mbps"].get<int>()].push_back(&r);
  for (const auto& [mbps, rows] : by_rate) {
    std::string data = "$d << E\nname kernel caravand program\n";
    for (const Json* r : rows)
      data += fmt::format("'{}' {} {} {}\n", (*r)["name"].get<std::string>(), part_of(*r, kParts[0]), part_of(*r, kParts[1]),
                          part_of(*r, kParts[2]));
    Plot cpu(fmt::format("{}/caravans-cpu-{}.svg", folder, mbps));
    cpu.send(data + "E\nset style data histograms\nset style histogram rowstacked\nset style fill solid 0.7 border -1\n"
             "set boxwidth 0.6\nset yrange [0:*]\nset xtics rotate by -20\n" +
             fmt::format("set ylabel 'CPU seconds of the host a GB, at {} Mb/s'\n", mbps) +
             "plot for [i=2:4] $d using i:xtic(1) title columnheader(i)\n");
    cpu.close();
    Series delays;
    constexpr double kAt[] = {1, 2, 3, 4};
    for (const Json* r : rows)
      for (size_t i = 0; i < 4; ++i) delays[(*r)["name"].get<std::string>()][kAt[i]] = delay_of(*r, i);
    draw(fmt::format("{}/caravans-delay-{}.svg", folder, mbps),
         "set xtics ('median' 1, '90th' 2, '99th' 3, '99.9th' 4)\nset logscale y\n" +
             fmt::format("set xlabel 'percentile'\nset ylabel 'delay from program to program, us, at {} Mb/s'\n", mbps), delays);
  }
}

}  // namespace

std::string table_head() {
  return "| work | flows | arrival | lines | engine | floor | ratio | Gb/s a core | yield | peers |\n"
         "|---|--:|---|---|--:|--:|--:|--:|--:|---|";
}

std::string table_row(const Json& r, double hz) {
  const char* floor = r["cycles"].contains("floor") ? "floor" : r["cycles"].contains("read") ? "read" : nullptr;
  std::string peers;
  for (const auto& [subject, rounds] : r["cycles"].items())
    if (subject != "engine" && subject != "floor" && subject != "read")
      peers += fmt::format("{}{} {}", peers.empty() ? "" : ", ", subject, figure(rounds));
  const double engine = mid(r, "engine");
  return fmt::format("| {} v{} | {} | {} | {} | {} | {} | {} | {:.0f} | {} | {} |", r["work"].get<std::string>(), r["ip"].get<int>(),
                     r["flows"].get<uint32_t>(), arrival(r), r["lines"].get<std::string>(), figure(r["cycles"]["engine"]),
                     floor != nullptr ? figure(r["cycles"][floor]) : "", floor != nullptr ? fmt::format("{:.2f}", engine / mid(r, floor)) : "",
                     r["packet_bytes"].get<double>() * 8 * hz / engine / 1e9,
                     r.contains("yield") ? fmt::format("{:.1f} %", r["yield"].get<double>() * 100) : "", peers);
}

std::string scale_head() {
  return "| flows | 1 worker | 2, one after the other | 2 together | times as fast | fan-out |\n|--:|--:|--:|--:|--:|--:|";
}

std::string scale_row(const Json& r) {
  const Json& c = r["cycles"];
  const auto times = r["speed_up"].get<std::vector<double>>();
  const auto [low, high] = std::minmax_element(times.begin(), times.end());
  return fmt::format("| {} | {} | {} | {} | {:.2f} ({:.2f}-{:.2f}) | {} |", r["flows"].get<uint32_t>(), figure(c["1 worker"]),
                     figure(c["alone"]), figure(c["together"]), median(times), *low, *high, figure(c["fan-out"]));
}

int report(const std::vector<std::string>& files, const std::string& folder) {
  for (const std::string& file : files) {
    std::ifstream in(file);
    Json j = Json::parse(in, nullptr, false);
    if (!j.is_object() || !j.contains("machine") || !j.contains("kind") || !j["results"].is_array())
      throw std::runtime_error(fmt::format("{}: not results of pxbench or bench/caravans.py; write them with --json", file));
    const Json& m = j["machine"];
    fmt::print("{}, {} CPUs, {}, {}, {}; load average {:.1f}\n\n", m["cpu"].get<std::string>(), m["cpus"].get<int>(),
               m["dpdk"].get<std::string>(), m["pages"].get<std::string>(), m["date"].get<std::string>(), m["load_average"].get<double>());
    if (j["kind"] == "caravans") {
      table_caravans(j["results"]);
      plot_caravans(j["results"], folder);
    } else if (j["kind"] == "scale") {
      fmt::print("{}\n", scale_head());
      for (const Json& r : j["results"]) fmt::print("{}\n", scale_row(r));
    } else if (j["kind"] == "run") {
      fmt::print("{}\n", table_head());
      for (const Json& r : j["results"]) fmt::print("{}\n", table_row(r, m["tsc_hz"].get<double>()));
      plot_run(j["results"], folder);
    } else {
      fmt::print("| flows | Mpps | hold us | yield | delay us, 99th |\n|--:|--:|--:|--:|--:|\n");
      for (const Json& r : j["results"])
        fmt::print("| {} | {} | {} | {:.1f} % | {:.1f} |\n", r["flows"].get<uint32_t>(), r["mpps"].get<double>(), r["hold_us"].get<double>(),
                   r["yield"].get<double>() * 100, r["delay_us"][1].get<double>());
      plot_load(j["results"], folder);
    }
    fmt::print("\n");
  }
  return 0;
}

}  // namespace bench
