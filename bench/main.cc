// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "bench/run.h"
#include "pxio/ctl/eal.h"

int main(int argc, char** argv) {
  CLI::App app("bench");
  std::vector<uint32_t> flows{1, 64, 1024, 16384, 65536}, run{1};
  std::vector<std::string> lines{"warm"}, work{"merge"};
  int version = 4;
  bench::Options o;
  uint32_t memory = 2048;
  app.add_option("--flows", flows);
  app.add_option("--runs", run);
  app.add_option("--lines", lines);
  app.add_option("--work", work);
  app.add_option("--version-ip", version);
  app.add_option("--rounds", o.rounds);
  app.add_option("--packets", o.packets);
  app.add_option("--memory", memory);
  app.add_option("--peers", o.peers);
  CLI11_PARSE(app, argc, argv);
  try {
    pxio::EalOptions e;
    e.memory_mb = memory;
    fmt::print("{}\n", pxio::start_eal(e));
    for (const auto& w : work)
      for (const auto& l : lines)
        for (uint32_t r : run)
          for (uint32_t f : flows) {
            bench::Case c;
            for (auto k : {bench::Work::kMerge, bench::Work::kSplit, bench::Work::kBoth, bench::Work::kForward, bench::Work::kRequest, bench::Work::kLro})
              if (w == bench::name_of(k)) c.work = k;
            for (auto k : {bench::Lines::kWarm, bench::Lines::kPacketCold, bench::Lines::kOtherCore, bench::Lines::kAllCold})
              if (l == bench::name_of(k)) c.lines = k;
            c.flows = f;
            c.run = r;
            c.version = version;
            const bench::Result res = bench::measure(c, o);
            fmt::print("{:32} yield {:.3f}", c.name(), res.yield);
            for (const auto& [name, v] : res.cycles)
              fmt::print("  {} {:.1f} ({:.1f}-{:.1f})", name, bench::median(v), *std::min_element(v.begin(), v.end()), *std::max_element(v.begin(), v.end()));
            fmt::print("\n");
            std::fflush(stdout);
          }
  } catch (const std::exception& e) {
    fmt::print(stderr, "pxbench: {}\n", e.what());
    return 1;
  }
}
