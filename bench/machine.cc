// SPDX-License-Identifier: BSD-3-Clause
#include "bench/machine.h"

#include <rte_cycles.h>
#include <rte_version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

namespace bench {

double tsc_hz() { return static_cast<double>(rte_get_tsc_hz()); }

nlohmann::json describe_machine(const std::string& pages) {
  std::string cpu = "unknown", line;
  std::ifstream info("/proc/cpuinfo");
  while (std::getline(info, line)) {
    if (line.rfind("model name", 0) == 0) {
      cpu = line.substr(line.find(':') + 2);
      break;
    }
  }
  utsname os{};
  uname(&os);
  double load[3] = {};
  getloadavg(load, 3);
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  return {{"cpu", cpu},
          {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
          {"tsc_hz", tsc_hz()},
          {"kernel", os.release},
          {"dpdk", rte_version()},
          {"pages", pages},
          {"load_average", load[0]},
          {"date", date}};
}

}  // namespace bench
