// SPDX-License-Identifier: BSD-3-Clause
// One measurement: a workload, the subjects that do it, and their cycles a packet over several rounds, in
// which the subjects take turns.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/buffers.h"

namespace bench {

// kMerge: full segments from outside. kSplit: jumbos of 9000 B from inside, counted by segments that
// leave. kTso: the same, proved by the port inside and cut by that outside, counted as they come. kBoth:
// six segments from outside for each jumbo from inside. kForward: datagrams of 1500 B that nothing
// translates. kRequest: lone small segments with PSH. kLro: packets of six segments, merged by a NIC into
// five buffers of 2 KiB. kFlood: as kMerge, but every other packet is a SYN from an address that never
// came before. kAck: acknowledgements without payload from inside. kBundle: datagrams of 1400 B payload to
// hosts that take caravans. kUnbundle: caravans of six such datagrams from inside, counted by datagrams
// that leave.
enum class Work : uint8_t { kMerge, kSplit, kTso, kBoth, kForward, kRequest, kLro, kFlood, kAck, kBundle, kUnbundle };
// As on the command line and in results.
inline constexpr std::pair<const char*, Work> kWorks[] = {
    {"merge", Work::kMerge},     {"split", Work::kSplit},     {"tso", Work::kTso},
    {"both", Work::kBoth},       {"forward", Work::kForward}, {"request", Work::kRequest},
    {"lro", Work::kLro},         {"flood", Work::kFlood},     {"ack", Work::kAck},
    {"bundle", Work::kBundle},   {"unbundle", Work::kUnbundle}};
inline constexpr std::pair<const char*, Lines> kLines[] = {{"warm", Lines::kWarm},
                                                           {"packet-dram", Lines::kPacketCold},
                                                           {"other-core", Lines::kOtherCore},
                                                           {"all-dram", Lines::kAllCold}};
template <typename T, size_t N>
constexpr const char* name_in(const std::pair<const char*, T> (&names)[N], T value) {
  for (const auto& [name, v] : names)
    if (v == value) return name;
  return "";
}

struct Case {
  Work work = Work::kMerge;
  uint32_t flows = 1;
  uint32_t run = 1;  // segments of a flow in a row, 0: the mix
  Lines lines = Lines::kWarm;
  int version = 4;
  std::string name() const;
};

struct Options {
  uint32_t rounds = 5;
  uint32_t packets = 1u << 18;  // a round
  int writer_cpu = 0, worker_cpu = 1;
  bool peers = true;
};

struct Result {
  Case what;
  uint32_t packet_bytes = 0;  // IP bytes of each packet that is counted
  double yield = -1;          // share, where there is merging
  std::map<std::string, std::vector<double>> cycles;  // by subject, a round each
};

// Throws std::runtime_error where memory is short or the engine did something else than it should.
Result measure(const Case& what, const Options& options);

double median(std::vector<double> v);

}  // namespace bench
