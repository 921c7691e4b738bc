// SPDX-License-Identifier: BSD-3-Clause
// The configuration file: what is taken, and the one line that each mistake gets.
#include "pxgw/ctl/config.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "pxgw/ctl/stats.h"

using namespace pxgw;

namespace {

const std::string kPair =
    "pairs:\n"
    "  - outside: {device: eth0, mtu: 1500}\n"
    "    inside: {device: eth1, mtu: 9000}\n";

std::string error_of(const std::string& text) {
  try {
    parse_config(text, "f.yaml");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

// eth0 of 1500 B, eth1 of 9000 B; all rights; two CPUs; no hugepage.
SystemView machine() {
  SystemView s;
  s.interface_mtu = [](const std::string& name) -> std::optional<uint32_t> {
    if (name == "eth0") return 1500;
    if (name == "eth1") return 9000;
    return std::nullopt;
  };
  s.interface_is_up = [](const std::string&) { return true; };
  s.pci_device_exists = [](const std::string& a) { return a == "0000:01:00.0"; };
  s.interface_list = [] { return std::string("lo, eth0, eth1"); };
  s.may_open_raw_sockets = [] { return true; };
  s.free_hugepages = [] { return uint64_t{0}; };
  s.cpu_count = 2;
  return s;
}

std::string system_error_of(const std::string& text, const SystemView& system = machine()) {
  try {
    check_system(parse_config(text, "f.yaml"), system);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("config: the smallest file has the documented defaults") {
  const Config c =
      parse_config("pairs:\n- outside: {device: eth0}\n  inside: {device: eth1}\n", "f.yaml");
  REQUIRE(c.pairs.size() == 1);
  CHECK(c.pairs[0].outside.device == "eth0");
  CHECK(c.pairs[0].outside.mtu == 1500);
  CHECK(c.pairs[0].inside.mtu == 9000);
  CHECK(c.workers == 1);
  CHECK(c.idle == Config::Idle::kSpin);
  CHECK(c.policy.hold_limit == std::chrono::microseconds(50));
  CHECK(c.control == kDefaultControl);
  CHECK(c.hugepages == Config::Pages::kAuto);
  CHECK(c.policy_of(0).inside_mtu == 9000);
}

TEST_CASE("config: every key arrives") {
  const Config c =
      parse_config(kPair +
                       "workers: 2\ncpus: [1, 3]\nhold_us: 0\nidle: sleep\n"
                       "include: [10.0.0.0/8, '2001:db8::/32']\nexclude: [10.9.0.0/16]\n"
                       "jumbo: [10.1.2.3]\nsafe_mtu: 1400\nmax_split_segments: 64\n"
                       "icmp: {from4: 192.0.2.1, from6: '2001:db8::1', per_second: 7}\n"
                       "flows: 4096\nflow_timeout_s: 60\npmtu_timeout_s: 300\n"
                       "control: /tmp/x.sock\nbuffers: {small: 20000, large: 5000}\n"
                       "eal: {hugepages: no, memory_mb: 256, extra: [--log-level, '8']}\n",
                   "f.yaml");
  CHECK(c.cpus == std::vector<uint16_t>{1, 3});
  CHECK(c.idle == Config::Idle::kSleep);
  CHECK(c.policy.hold_limit.count() == 0);
  REQUIRE(c.policy.include.size() == 2);
  CHECK(to_string(c.policy.include[1]) == "2001:db8::/32");
  CHECK(to_string(c.policy.jumbo.at(0)) == "10.1.2.3/32");
  CHECK(c.policy.safe_mtu == 1400);
  CHECK(c.policy.max_split_segs == 64);
  CHECK(c.policy.icmp_from4 == std::array<uint8_t, 4>{192, 0, 2, 1});
  CHECK(c.policy.icmp_from6.has_value());
  CHECK(c.policy.icmp_per_second == 7);
  CHECK(c.flows == 4096);
  CHECK(c.policy.flow_timeout == std::chrono::seconds(60));
  CHECK(c.policy.pmtu_timeout == std::chrono::seconds(300));
  CHECK(c.control == "/tmp/x.sock");
  CHECK(c.small_buffers == 20000);
  CHECK(c.large_buffers == 5000);
  CHECK(c.hugepages == Config::Pages::kNo);
  CHECK(c.eal_extra.size() == 2);
}

TEST_CASE("config: offloads are used unless they are off") {
  const std::string nic =
      "pairs:\n  - outside:\n      device: 0000:01:00.0\n      offloads: {lro: off, rss: off, tso: auto}\n"
      "    inside:\n      device: eth1\n      offloads: {tso: off}\n";
  const Config c = parse_config(nic, "f.yaml");
  CHECK(c.pairs[0].outside.offloads == pxio::OffloadWishes{.lro = false, .rss = false});
  CHECK(c.pairs[0].inside.offloads == pxio::OffloadWishes{.tso = false});
  Config other = c;
  other.pairs[0].inside.offloads.tso = true;
  CHECK(needs_restart(c, other) == "pairs[0].inside.offloads");
  const auto with = [](const std::string& device, const std::string& offloads) {
    return error_of("pairs:\n- outside: {device: '" + device + "'}\n  inside:\n    device: 'net_x'\n"
                    "    offloads:\n      " + offloads + "\n");
  };
  CHECK(with("eth0", "lro: on") ==
        "f.yaml:6: pairs[0].inside.offloads.lro: 'on' is not a choice; give auto or off");
  CHECK_THAT(with("eth0", "lor: off"), Catch::Contains("f.yaml:6: pairs[0].inside.offloads.lor: unknown key; "
                                                       "known here: lro, tso, checksum, scatter"));
  CHECK_THAT(error_of("pairs: [{outside: {device: a, offloads: {rss: off}}, inside: {device: b}}]\n"),
             Catch::Contains("f.yaml:1: pairs[0].outside.offloads.rss: a is a Linux interface") &&
                 Catch::Contains("ethtool -K a"));
}

TEST_CASE("config: caravans are off, and what they may be") {
  using Mode = Caravans::Mode;
  const Config plain = parse_config(kPair, "f.yaml");
  CHECK(plain.policy.caravans.mode == Mode::kOff);
  CHECK(plain.policy.caravans.tunnels.size() > 10);
  const Config c = parse_config(kPair + "caravan:\n  mode: observe\n  hello: off\n  hosts: [10.0.0.5, '2001:db8::5']\n"
                                        "  max_hosts: 7\n  port: 7000\n  tunnels: [4789]\n  spacing_us: 5\n",
                                "f.yaml");
  const Caravans& p = c.policy.caravans;
  CHECK(p.mode == Mode::kObserve);
  CHECK_FALSE(p.hello);
  CHECK(p.port == 7000);
  CHECK(p.tunnels == std::vector<uint16_t>{4789});
  CHECK(p.spacing == std::chrono::microseconds(5));
  CHECK(c.caravan.hosts.size() == 2);
  CHECK(c.caravan.max_hosts == 7);
  CHECK(error_of(kPair + "caravan: {mode: yes}\n") ==
        "f.yaml:4: caravan.mode: 'yes' is not a choice; give off, observe or on");
  CHECK_THAT(error_of(kPair + "caravan: {hosts: [10.0.0.0/24]}\n"),
             Catch::Contains("f.yaml:4: caravan.hosts[0]: 10.0.0.0/24 is a prefix; give addresses"));
  CHECK_THAT(error_of(kPair + "caravan: {tunnels: [0]}\n"), Catch::Contains("caravan.tunnels[0]: 0 is out of range"));
  CHECK_THAT(error_of(kPair + "caravan: {}\ncaravan: {}\n"), Catch::Contains("caravan: is given twice"));
  CHECK_THAT(error_of(kPair + "caravan: {host: []}\n"),
             Catch::Contains("caravan.host: unknown key; known here: mode, hello, hosts"));
  const auto with = [](const std::string& mode) { return parse_config(kPair + "caravan: {mode: " + mode + "}\n", "f.yaml"); };
  CHECK(needs_restart(with("off"), with("on")) == "caravan.mode");
  CHECK(needs_restart(with("observe"), with("on")).empty());
}

TEST_CASE("config: path MTUs are what the port carries, unless it says otherwise") {
  const Config plain = parse_config(kPair, "f.yaml");
  CHECK(!plain.policy.probing.probe);
  CHECK(plain.policy_of(0).assumed_path() == 1500);
  const std::string wide =
      "pairs: [{outside: {device: eth0, mtu: 9000}, inside: {device: eth1, mtu: 9000}}]\n";
  const Config c = parse_config(wide +
                                    "pmtu:\n  probe: on\n  answer: [10.0.0.0/8, 'fd00::/8']\n  port: 7000\n"
                                    "  key_file: /k\n  elephant_bytes: 100000\n  probes_per_second: 3\n"
                                    "  retry_s: 60\n",
                                "f.yaml");
  const PathProbing& p = c.policy.probing;
  CHECK(p.probe);
  CHECK(p.answer.size() == 2);
  CHECK(p.port == 7000);
  CHECK(p.elephant_bytes == 100000);
  CHECK(p.retry == std::chrono::seconds(60));
  CHECK(c.pmtu.key_file == "/k");
  CHECK(c.pmtu.probes_per_second == 3);
  CHECK(c.policy_of(0).assumed_path() == 1500);
  CHECK(parse_config(wide + "pmtu: {assume: 4000}\n", "f.yaml").policy_of(0).assumed_path() == 4000);
  CHECK_THAT(error_of(wide), Catch::Contains("f.yaml:1: pairs[0]: the inside MTU 9000 is not above") &&
                                 Catch::Contains("`pmtu.assume` is below both"));
  CHECK_THAT(error_of("pairs: [{outside: {device: a, mtu: 9000}, inside: {device: b, mtu: 8000}}]\n"
                      "pmtu: {probe: on}\n"),
             Catch::Contains("f.yaml:1: pairs[0]: the inside MTU 8000 is below the outside MTU 9000"));
  CHECK(error_of(kPair + "pmtu: {probe: yes}\n") ==
        "f.yaml:4: pmtu.probe: 'yes' is not a choice; give off or on");
  CHECK_THAT(error_of(kPair + "pmtu: {assume: 1279}\n"),
             Catch::Contains("f.yaml:4: pmtu.assume: 1279 is out of range; give a whole number between 1280 and"));
  CHECK_THAT(error_of(kPair + "pmtu: {answers: []}\n"), Catch::Contains("pmtu.answers: unknown key; known here: "
                                                                         "probe, assume, answer"));
  CHECK_THAT(error_of(kPair + "exclude: [10.0.0.0/8]\npmtu: {answer: [10.1.0.0/16]}\n"),
             Catch::Contains("f.yaml:5: pmtu.answer[0]: `exclude` takes out all of 10.1.0.0/16 (line 4)"));
  CHECK_THAT(system_error_of(kPair + "pmtu: {key_file: /nowhere/key}\n"),
             Catch::Contains("f.yaml:4: pmtu.key_file: /nowhere/key: can't be read"));
}

TEST_CASE("config: devices are told apart by their form") {
  const auto kind = [](const std::string& device, const std::string& want_device) {
    const Config c =
        parse_config("pairs: [{outside: {device: '" + device + "'}, inside: {device: in}}]", "f");
    CHECK(c.pairs[0].outside.device == want_device);
    return c.pairs[0].outside.kind;
  };
  CHECK(kind("eth0", "eth0") == PortConfig::Kind::kKernel);
  CHECK(kind("kernel:net_x", "net_x") == PortConfig::Kind::kKernel);
  CHECK(kind("0000:01:00.0", "0000:01:00.0") == PortConfig::Kind::kPci);
  CHECK(kind("01:00.0", "0000:01:00.0") == PortConfig::Kind::kPci);
  CHECK(kind("0000:01:00.0,mprq_en=1", "0000:01:00.0,mprq_en=1") == PortConfig::Kind::kPci);
  CHECK(kind("net_pcap0,rx_iface=a", "net_pcap0,rx_iface=a") == PortConfig::Kind::kVdev);
}

TEST_CASE("config: mistakes get file, line, key and what would be right") {
  struct Row {
    std::string text, want;
  };
  const Row rows[] = {
      {"", "f.yaml:1: pairs: is missing, the file is empty"},
      {"- a\n", "f.yaml:1: is not a map of keys"},
      {"pairs: [\n", "not YAML"},
      {"a: 1\n---\nb: 2\n", "f.yaml:3: holds more than one document"},
      {"\"5\", m4, 5]\n", "f.yaml:1: holds more than one document"},
      {"workers: 1\n", "f.yaml:1: pairs: is missing; give"},
      {kPair + "wrokers: 1\n", "f.yaml:4: wrokers: unknown key; known here: pairs, workers"},
      {kPair + "workers: 1\nworkers: 2\n", "f.yaml:5: workers: is given twice, first in line 4"},
      {kPair + "workers: many\n",
       "f.yaml:4: workers: 'many' is not a number; give a whole number between 1 and 64"},
      {kPair + "workers: '2'\n", "f.yaml:4: workers: '2' is not a number"},
      {kPair + "workers: -1\n", "f.yaml:4: workers: '-1' is not a number"},
      {kPair + "workers: 010\n", "f.yaml:4: workers: '010' is not a number"},
      {kPair + "workers: 0\n",
       "f.yaml:4: workers: 0 is out of range; give a whole number between 1 and 64"},
      {kPair + "workers: 99999999999999999999\n", "is out of range"},
      {kPair + "workers: [1]\n", "f.yaml:4: workers: is a list; give a whole number"},
      {kPair + "workers:\n", "f.yaml:4: workers: has no value; give a whole number"},
      {kPair + "cpus: [0, 1, 2]\n", "f.yaml:4: cpus: names 3 CPUs for 1 workers"},
      {kPair + "workers: 2\ncpus: [1, 1]\n", "f.yaml:5: cpus[1]: CPU 1 is given twice"},
      {kPair + "cpus: 1\n", "f.yaml:4: cpus: is not a list; give a list of CPU numbers"},
      {kPair + "hold_us: 1001\n",
       "f.yaml:4: hold_us: 1001 is out of range; give a whole number between 0 and 1000 us"},
      {kPair + "idle: nap\n", "f.yaml:4: idle: 'nap' is not a choice; give sleep or spin"},
      {kPair + "eal: {hugepages: some}\n",
       "eal.hugepages: 'some' is not a choice; give auto, yes or no"},
      {kPair + "eal: {huge: yes}\n",
       "f.yaml:4: eal.huge: unknown key; known here: hugepages, memory_mb, extra"},
      {kPair + "icmp: {from4: 2001:db8::1}\n",
       "icmp.from4: '2001:db8::1' is not an address; give an IPv4 address"},
      {kPair + "control: pxgw.sock\n", "f.yaml:4: control: 'pxgw.sock' is not an absolute path"},
      {kPair + "control: /" + std::string(107, 'x') + "\n", "is longer than the 107 bytes"},
      {kPair + "safe_mtu: 1000\n",
       "f.yaml:4: safe_mtu: 1000 is out of range; give a whole number between 1280"},
      {kPair + "safe_mtu: 1600\n",
       "f.yaml:4: safe_mtu: 1600 is above the outside MTU 1500 of pairs[0]"},
      {"pairs:\n", "f.yaml:1: pairs: has no value; give a list of pairs"},
      {"pairs: []\n", "f.yaml:1: pairs: is empty"},
      {"pairs: [{inside: {device: a}}]\n", "pairs[0]: has no `outside` port"},
      {"pairs: [{outside: {device: a}}]\n", "pairs[0]: has no `inside` port"},
      {"pairs: [{outside: {mtu: 1500}, inside: {device: a}}]\n", "pairs[0].outside: has no device"},
      {"pairs:\n- outside: {device: a, mtu: 1279}\n  inside: {device: b}\n",
       "f.yaml:2: pairs[0].outside.mtu: 1279 is out of range; give a whole number between 1280 and "
       "9500 B"},
      {"pairs:\n- outside: {device: a}\n  inside: {device: b, mtu: 9501}\n",
       "f.yaml:3: pairs[0].inside.mtu: 9501"},
      {"pairs: [{outside: {device: a, mtu: 3000}, inside: {device: b, mtu: 3000}}]\n",
       "pairs[0]: the inside MTU 3000 is not above the outside MTU 3000"},
      {"pairs: [{outside: {device: a}, inside: {device: a}}]\n",
       "pairs[0]: device a is used twice"},
      {"pairs: [{outside: {device: net_x,b=1}, inside: {device: a}}]\n",
       "(quote a text that contains commas)"},
      {"pairs: [{outside: {device: 'a:b'}, inside: {device: a}}]\n",
       "pairs[0].outside.device: 'a:b' is not a device"},
      {"pairs: [{outside: {device: interface-of-16-b}, inside: {device: a}}]\n", "is not a device"},
      {kPair + "include: [10.0.0.0/33]\n",
       "f.yaml:4: include[0]: '10.0.0.0/33' has no prefix length between 0 and 32"},
      {kPair + "include: [10.0.0.1/8]\n",
       "write 10.0.0.0/8 for the network or 10.0.0.1 for the host"},
      {kPair + "include: [ten]\n", "include[0]: 'ten' is not a prefix; write it as 192.0.2.0/24"},
      {kPair + "include: 10.0.0.0/8\n", "include: is not a list; give a list of prefixes"},
      {kPair + "include:\n- 10.0.0.0/8\n- 10.1.0.0/16\n",
       "f.yaml:6: include[1]: 10.1.0.0/16 overlaps 10.0.0.0/8 in line 5; keep the wider one"},
      {kPair + "exclude: [10.1.0.0/16, 10.1.0.0/16]\n",
       "exclude[1]: 10.1.0.0/16 overlaps 10.1.0.0/16"},
      {kPair + "jumbo: ['2001:db8:1::/48', '2001:db8::/32']\n", "jumbo[1]: 2001:db8::/32 overlaps"},
      {kPair + "include: [10.1.0.0/16]\nexclude: [10.0.0.0/8]\n",
       "f.yaml:5: exclude[0]: 10.0.0.0/8 takes out all of 10.1.0.0/16 (include[0], line 4)"},
      {kPair + "jumbo: [10.1.0.0/16]\nexclude: [10.1.0.0/16]\n",
       "takes out all of 10.1.0.0/16 (jumbo[0], line 4)"},
      {kPair + "include: [10.1.0.0/16]\njumbo: [10.2.0.0/16]\n",
       "jumbo[0]: 10.2.0.0/16 is in no prefix of `include`"},
  };
  for (const Row& row : rows) {
    const std::string error = error_of(row.text);
    INFO(row.text);
    CHECK_THAT(error, Catch::Contains(row.want));
    CHECK(error.rfind("f.yaml:", 0) == 0);
    CHECK(error.find('\n') == std::string::npos);
  }
}

TEST_CASE("config: an excluded part of an included prefix is fine") {
  CHECK(
      error_of(kPair + "include: [10.0.0.0/8]\nexclude: [10.1.0.0/16, '2001:db8::/32']\n").empty());
  CHECK(error_of(kPair + "include: [10.0.0.0/8, '::/0']\njumbo: [0.0.0.0/0]\n").empty());
}

TEST_CASE("config: what the machine doesn't have") {
  CHECK(system_error_of(kPair).empty());
  CHECK_THAT(
      system_error_of("pairs:\n- outside: {device: eth7}\n  inside: {device: eth1}\n"),
      Catch::Equals(
          "f.yaml:2: pairs[0].outside.device: no interface eth7; there are: lo, eth0, eth1"));
  CHECK_THAT(
      system_error_of("pairs:\n- outside: {device: eth1}\n  inside: {device: eth0, mtu: 9000}\n"),
      Catch::Contains(
          "f.yaml:3: pairs[0].inside.mtu: 9000 is above what eth0 takes, 1500; give at most that, "
          "or run `ip link set dev eth0 mtu 9000`"));
  CHECK_THAT(
      system_error_of("pairs: [{outside: {device: '0000:02:00.0'}, inside: {device: eth1}}]\n"),
      Catch::Contains("no PCI device 0000:02:00.0"));
  CHECK(
      system_error_of("pairs: [{outside: {device: '0000:01:00.0,a=1'}, inside: {device: eth1}}]\n")
          .empty());
  CHECK_THAT(system_error_of(kPair + "cpus: [2]\n"),
             Catch::Contains("there is no CPU 2; give numbers between 0 and 1"));
  CHECK_THAT(system_error_of(kPair + "eal: {hugepages: yes}\n"),
             Catch::Contains("no hugepage is free"));
  SystemView down = machine();
  down.interface_is_up = [](const std::string& name) { return name != "eth1"; };
  CHECK_THAT(system_error_of(kPair, down),
             Catch::Equals(
                 "f.yaml:3: pairs[0].inside.device: eth1 is down; run `ip link set dev eth1 up`"));
  SystemView poor = machine();
  poor.may_open_raw_sockets = [] { return false; };
  CHECK_THAT(system_error_of(kPair, poor), Catch::Contains("no right to open eth0; run as root"));
}

TEST_CASE("config: what a running gateway takes over") {
  const Config a = parse_config(kPair, "f.yaml");
  const auto change = [&](const std::string& text) {
    return needs_restart(a, parse_config(text, "f.yaml"));
  };
  CHECK(change(kPair).empty());
  CHECK(
      change(kPair + "hold_us: 10\ninclude: [10.0.0.0/8]\nsafe_mtu: 1300\nicmp: {per_second: 1}\n")
          .empty());
  CHECK(change("pairs: [{outside: {device: eth0}, inside: {device: eth1, mtu: 4000}}]\n").empty());
  CHECK(change("pairs: [{outside: {device: eth0}, inside: {device: eth1, mtu: 9100}}]\n") ==
        "pairs[0].inside.mtu");
  CHECK(change("pairs: [{outside: {device: eth2}, inside: {device: eth1}}]\n") ==
        "pairs[0].outside.device");
  CHECK(change(kPair + "  - outside: {device: c}\n    inside: {device: d}\n") == "pairs");
  CHECK(change(kPair + "workers: 2\n") == "workers");
  CHECK(change(kPair + "cpus: [0]\n") == "cpus");
  CHECK(change(kPair + "idle: sleep\n") == "idle");
  CHECK(change(kPair + "pmtu: {assume: 1400, elephant_bytes: 70000, probes_per_second: 1, retry_s: 10}\n").empty());
  CHECK(change(kPair + "pmtu: {probe: on}\n") == "pmtu.probe");
  CHECK(change(kPair + "pmtu: {answer: [10.0.0.0/8]}\n") == "pmtu.answer");
  CHECK(change(kPair + "pmtu: {port: 7}\n") == "pmtu.port");
  CHECK(change(kPair + "pmtu: {key_file: /k}\n") == "pmtu.key_file");
  CHECK(change(kPair + "control: /x\n") == "control");
  CHECK(change(kPair + "flows: 2048\n") == "flows");
  CHECK(change(kPair + "buffers: {small: 2048}\n") == "buffers");
  CHECK(change(kPair + "eal: {memory_mb: 99}\n") == "eal");
}

TEST_CASE("config: the examples in conf/ are right") {
  size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("conf")) {
    if (entry.path().extension() != ".yaml") continue;
    INFO(entry.path());
    CHECK_NOTHROW(load_config(entry.path().string()));
    ++found;
  }
  CHECK(found >= 2);
}

TEST_CASE("config: files that can't be read") {
  CHECK_THROWS_WITH(load_config("/nonexistent/x.yaml"),
                    Catch::StartsWith("/nonexistent/x.yaml: can't be read"));
  CHECK_THROWS_WITH(load_config("/"), Catch::Contains("can't be read"));
}

TEST_CASE("stats: JSON and back is the same, and every counter has a group") {
  Counters c;
  c.in_pkts = 7;
  c.engine.merge_bulk_in = 10;
  c.engine.merge_bulk_full = 9;
  c.size_in[0][2] = 3;
  c.hold[1] = 4;
  c.flows = 5;
  const Json j = to_json(c);
  CHECK(to_json(counters_from_json(j)) == j);
  CHECK(j["yield_pct"] == 90.0);
  const std::string page = describe_counters();
#define PX_COUNTER(name, unit, sentence) CHECK(page.find("| `" #name "` |") != std::string::npos);
#include "pxgw/dp/counters.def"
#include "pxio/dp/counters.def"
#undef PX_COUNTER
}

TEST_CASE("stats: docs/counters.md is up to date") {
  std::ifstream in("docs/counters.md");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  CHECK((page == describe_counters()));  // else: pxgw stats --describe > docs/counters.md
}
