// SPDX-License-Identifier: BSD-3-Clause
// What of a configuration can be checked against the machine, and against a running gateway.
#include <fmt/format.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "fpmtud/host/key_file.h"
#include "pxgw/ctl/config.h"

namespace pxgw {
namespace {

// By socket: /sys/class/net shows the namespace of whoever mounted it.
std::optional<ifreq> ask_interface(unsigned long what, const std::string& name) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  const bool ok = ioctl(fd, what, &request) == 0;
  close(fd);
  if (!ok) return std::nullopt;
  return request;
}

std::optional<uint32_t> interface_mtu(const std::string& name) {
  const auto r = ask_interface(SIOCGIFMTU, name);
  if (!r) return std::nullopt;
  return static_cast<uint32_t>(r->ifr_mtu);
}

bool interface_is_up(const std::string& name) {
  const auto r = ask_interface(SIOCGIFFLAGS, name);
  return r && (r->ifr_flags & IFF_UP) != 0;
}

std::string interface_list() {
  std::string out;
  struct if_nameindex* all = if_nameindex();
  if (all == nullptr) return out;
  for (const auto* i = all; i->if_index != 0; ++i)
    out += fmt::format("{}{}", out.empty() ? "" : ", ", i->if_name);
  if_freenameindex(all);
  return out;
}

// Protocol 0: the socket would receive nothing.
bool may_open_raw_sockets() {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  close(fd);
  return true;
}

uint64_t free_hugepages() {
  uint64_t free = 0;
  std::error_code error;
  for (const auto& size : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", error)) {
    std::ifstream in(size.path() / "free_hugepages");
    uint64_t n = 0;
    if (in >> n) free += n;
  }
  return free;
}

[[noreturn]] void fail(const Config& c, int line, const std::string& key, const std::string& what) {
  throw ConfigError(fmt::format("{}:{}: {}: {}", c.file, line, key, what));
}

void check_port(const Config& c, const SystemView& system, const PortConfig& p,
                const std::string& key) {
  if (p.kind == PortConfig::Kind::kPci) {
    const std::string address = p.device.substr(0, p.device.find(','));
    if (!system.pci_device_exists(address))
      fail(c, p.line, key + ".device",
           fmt::format("no PCI device {}; `dpdk-devbind.py --status-dev net` lists those there are",
                       address));
    return;
  }
  if (p.kind == PortConfig::Kind::kVdev) return;
  const auto mtu = system.interface_mtu(p.device);
  if (!mtu)
    fail(c, p.line, key + ".device",
         fmt::format("no interface {}; there are: {}", p.device, system.interface_list()));
  if (p.mtu > *mtu)
    fail(c, p.mtu_line, key + ".mtu",
         fmt::format(
             "{} is above what {} takes, {}; give at most that, or run `ip link set dev {} mtu {}`",
             p.mtu, p.device, *mtu, p.device, p.mtu));
  if (!system.interface_is_up(p.device))
    fail(c, p.line, key + ".device",
         fmt::format("{} is down; run `ip link set dev {} up`", p.device, p.device));
  if (!system.may_open_raw_sockets())
    fail(c, p.line, key + ".device",
         fmt::format("no right to open {}; run as root, or with the capabilities CAP_NET_RAW and "
                     "CAP_NET_ADMIN",
                     p.device));
}

}  // namespace

SystemView this_system() {
  SystemView s;
  s.interface_mtu = interface_mtu;
  s.interface_is_up = interface_is_up;
  s.pci_device_exists = [](const std::string& address) {
    std::error_code error;
    return std::filesystem::exists("/sys/bus/pci/devices/" + address, error);
  };
  s.interface_list = interface_list;
  s.may_open_raw_sockets = may_open_raw_sockets;
  s.free_hugepages = free_hugepages;
  s.cpu_count = std::max(1u, static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN)));
  return s;
}

void check_system(const Config& c, const SystemView& system) {
  for (size_t i = 0; i < c.pairs.size(); ++i) {
    for (const bool inside : {false, true}) {
      const PortConfig& p = inside ? c.pairs[i].inside : c.pairs[i].outside;
      const std::string key = fmt::format("pairs[{}].{}", i, inside ? "inside" : "outside");
      check_port(c, system, p, key);
    }
  }
  if (!c.pmtu.key_file.empty()) {
    try {
      fpmtud::read_key(c.pmtu.key_file);
    } catch (const std::exception& e) {
      fail(c, c.pmtu.key_line, "pmtu.key_file", e.what());
    }
  }
  for (const uint16_t cpu : c.cpus)
    if (cpu >= system.cpu_count)
      fail(c, 1, "cpus",
           fmt::format("there is no CPU {}; give numbers between 0 and {}", cpu,
                       system.cpu_count - 1));
  if (c.hugepages == Config::Pages::kYes && system.free_hugepages() == 0)
    fail(c, 1, "eal.hugepages",
         "no hugepage is free; run `sysctl vm.nr_hugepages=512`, or give `hugepages: auto`, which "
         "does without");
}

std::string needs_restart(const Config& opened, const Config& next) {
  if (opened.pairs.size() != next.pairs.size()) return "pairs";
  for (size_t i = 0; i < opened.pairs.size(); ++i) {
    for (const bool inside : {false, true}) {
      const PortConfig& a = inside ? opened.pairs[i].inside : opened.pairs[i].outside;
      const PortConfig& b = inside ? next.pairs[i].inside : next.pairs[i].outside;
      const std::string key = fmt::format("pairs[{}].{}", i, inside ? "inside" : "outside");
      if (a.kind != b.kind || a.device != b.device) return key + ".device";
      if (b.mtu > a.mtu) return key + ".mtu";
      if (a.offloads != b.offloads) return key + ".offloads";
    }
  }
  if (opened.workers != next.workers) return "workers";
  if (opened.cpus != next.cpus) return "cpus";
  if (opened.idle != next.idle) return "idle";
  if (opened.control != next.control) return "control";
  if (opened.flows != next.flows) return "flows";
  const PathProbing &now = opened.policy.probing, &then = next.policy.probing;
  if (now.probe != then.probe) return "pmtu.probe";
  if (now.port != then.port) return "pmtu.port";
  if (now.answer != then.answer) return "pmtu.answer";
  if (opened.caravan.max_hosts != next.caravan.max_hosts) return "caravan.max_hosts";
  // Stages are there from the start, or not at all.
  if ((opened.policy.caravans.mode == Caravans::Mode::kOff) != (next.policy.caravans.mode == Caravans::Mode::kOff))
    return "caravan.mode";
  if (opened.pmtu.key_file != next.pmtu.key_file) return "pmtu.key_file";
  if (opened.small_buffers != next.small_buffers || opened.large_buffers != next.large_buffers)
    return "buffers";
  if (opened.hugepages != next.hugepages || opened.memory_mb != next.memory_mb ||
      opened.eal_extra != next.eal_extra)
    return "eal";
  return "";
}

}  // namespace pxgw
