// SPDX-License-Identifier: BSD-3-Clause
// The configuration file of `pxgw run`: YAML, checked strictly. Nothing is used of a file that has
// an error anywhere. Control thread.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pxgw/dp/policy.h"
#include "pxio/ctl/ethdev_plan.h"

namespace pxgw {

inline constexpr const char* kDefaultControl = "/run/pxgw/pxgw.sock";
inline constexpr uint16_t kMinMtu = 1280;  // RFC 8200, section 5
// What a buffer of 9600 B holds behind an Ethernet header and two VLAN tags, rounded down.
inline constexpr uint16_t kMaxMtu = 9500;
inline constexpr uint16_t kEthernetMtu = 1500;
inline constexpr uint16_t kMaxWorkers = 64;
inline constexpr size_t kMaxPairs = 16;

// One line: "FILE:LINE: KEY: what is wrong; what would be right".
class ConfigError : public std::runtime_error {
 public:
  // One line, whatever the file made us quote.
  explicit ConfigError(std::string what) : std::runtime_error(one_line(std::move(what))) {}

 private:
  static std::string one_line(std::string s) {
    for (char& c : s)
      if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
    return s;
  }
};

// The keys of `offloads`.
inline constexpr std::array<std::pair<std::string_view, bool pxio::OffloadWishes::*>, 7> kOffloads = {{
    {"lro", &pxio::OffloadWishes::lro},
    {"tso", &pxio::OffloadWishes::tso},
    {"checksum", &pxio::OffloadWishes::checksum},
    {"scatter", &pxio::OffloadWishes::scatter},
    {"multi_segment", &pxio::OffloadWishes::multi_segment},
    {"rss", &pxio::OffloadWishes::rss},
    {"flow_rules", &pxio::OffloadWishes::flow_rules},
}};

struct PortConfig {
  enum class Kind : uint8_t { kKernel, kPci, kVdev };
  Kind kind = Kind::kKernel;
  std::string device;  // interface name, PCI address (with devargs) or vdev devargs
  uint16_t mtu = 0;
  pxio::OffloadWishes offloads;
  int line = 0;
  int mtu_line = 0;
};

struct PairConfig {
  PortConfig outside, inside;
  int line = 0;
};

// `pmtu`, as far as it isn't in Policy::probing.
struct PmtuConfig {
  std::optional<uint16_t> assume;   // default: 1500 where paths are probed, else the outside MTU
  uint32_t probes_per_second = 10;  // destinations, of all pairs together
  std::string key_file;             // empty: no key
  int key_line = 0;
};

// `caravan`, as far as it isn't in Policy::caravans.
struct CaravanConfig {
  std::vector<Prefix> hosts;   // addresses
  uint32_t max_hosts = 4096;   // registered at once
};

struct Config {
  enum class Idle : uint8_t { kSpin, kSleep };
  enum class Pages : uint8_t { kAuto, kYes, kNo };

  std::string file;
  std::vector<PairConfig> pairs;
  uint16_t workers = 1;
  std::vector<uint16_t> cpus;  // one a worker, perhaps one more for the fan-out; empty: not pinned
  Idle idle = Idle::kSpin;
  std::string control = kDefaultControl;
  uint32_t flows = 1u << 20;   // of all workers and pairs together
  uint32_t small_buffers = 0;  // 0: computed
  uint32_t large_buffers = 0;
  Pages hugepages = Pages::kAuto;
  uint32_t memory_mb = 0;  // 0: computed
  std::vector<std::string> eal_extra;
  PmtuConfig pmtu;
  CaravanConfig caravan;
  Policy policy;  // what all pairs share; the MTUs are each pair's own

  Policy policy_of(size_t pair) const;
};

// Throw ConfigError.
Config load_config(const std::string& path);
Config parse_config(const std::string& text, const std::string& file_name);

// What check_system needs to know of the machine; the tests give their own.
struct SystemView {
  std::function<std::optional<uint32_t>(const std::string&)> interface_mtu;
  std::function<bool(const std::string&)> interface_is_up;
  std::function<bool(const std::string&)> pci_device_exists;
  std::function<std::string()> interface_list;  // for messages
  std::function<bool()> may_open_raw_sockets;
  std::function<uint64_t()> free_hugepages;
  uint32_t cpu_count = 1;
};
SystemView this_system();

// Checks all that can be checked without taking the ports over. Throws ConfigError.
void check_system(const Config& config, const SystemView& system);

// The first key that differs and that a running gateway can't take over, as "LINE: KEY"-less path
// such as "pairs[0].outside.device"; empty: all differences can be applied. An MTU can be lowered
// and raised again, up to what the port was opened with.
std::string needs_restart(const Config& opened, const Config& next);

// "10.0.0.0/8", "2001:db8::/32", or an address alone. Throws std::invalid_argument: what is wrong
// and what would be right.
Prefix parse_prefix(std::string_view text);
std::string to_string(const Prefix& prefix);
// Whether every address of b is in a.
bool covers(const Prefix& a, const Prefix& b);

}  // namespace pxgw
