// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/config.h"

#include "pxio/dp/split.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <utility>

namespace pxgw {
namespace {

int line_of(const YAML::Node& n) { return n.Mark().line + 1; }

// One value of the file with its path and place, for messages.
class Value {
 public:
  Value(const std::string& file, std::string key, YAML::Node node, int line)
      : file_(&file), key_(std::move(key)), node_(std::move(node)), line_(line) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError(fmt::format("{}:{}: {}: {}", *file_, line_, key_, what));
  }
  int line() const { return line_; }
  const std::string& key() const { return key_; }
  bool is_sequence() const { return node_.IsSequence(); }

  std::string text(const std::string& want) const {
    if (node_.IsNull()) fail(fmt::format("has no value; give {}, or leave the key out", want));
    if (!node_.IsScalar()) fail(fmt::format("is a {}; give {}", kind(), want));
    return node_.Scalar();
  }

  uint64_t number(uint64_t low, uint64_t high, std::string_view unit = "") const {
    const std::string want = fmt::format("a whole number between {} and {}{}{}", low, high,
                                         unit.empty() ? "" : " ", unit);
    const std::string s = text(want);
    uint64_t v = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
    const bool digits = !s.empty() && s.find_first_not_of("0123456789") == std::string::npos;
    // A quoted number is text, and so is 010, which YAML 1.1 takes for 8.
    if (!digits || end != s.data() + s.size() || node_.Tag() == "!" ||
        (s.size() > 1 && s[0] == '0'))
      fail(fmt::format("'{}' is not a number; give {}", s, want));
    if (error != std::errc() || v < low || v > high)
      fail(fmt::format("{} is out of range; give {}", s, want));
    return v;
  }

  template <typename T, size_t N>
  T one_of(const std::array<std::pair<std::string_view, T>, N>& choices) const {
    std::string want;
    for (size_t i = 0; i < N; ++i)
      want += fmt::format("{}{}", i == 0 ? "" : i + 1 == N ? " or " : ", ", choices[i].first);
    const std::string s = text(want);
    for (const auto& [name, value] : choices)
      if (s == name) return value;
    fail(fmt::format("'{}' is not a choice; give {}", s, want));
  }

  std::vector<Value> list(const std::string& of) const {
    if (!node_.IsSequence())
      fail(fmt::format("{}; give a list of {}", node_.IsNull() ? "has no value" : "is not a list",
                       of));
    std::vector<Value> out;
    for (const YAML::Node& item : node_)
      out.emplace_back(*file_, fmt::format("{}[{}]", key_, out.size()), item, line_of(item));
    return out;
  }

  // Calls take(name, value) for each key, which returns false for one that it doesn't know.
  template <typename F>
  void map(std::string_view known, F take) const {
    if (!node_.IsMap())
      fail(fmt::format("{}; give the keys {}",
                       node_.IsNull() ? "has no value" : fmt::format("is a {}", kind()), known));
    std::vector<std::pair<std::string, int>> seen;
    for (const auto& entry : node_) {
      const int at = line_of(entry.first);
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      const Value v(*file_, key_.empty() ? name : key_ + "." + name, entry.second, at);
      for (const auto& [other, line] : seen)
        if (other == name)
          v.fail(fmt::format("is given twice, first in line {}; keep one of them", line));
      seen.emplace_back(name, at);
      if (!take(name, v))
        v.fail(fmt::format("unknown key; known here: {}{}", known,
                           entry.second.IsNull() ? " (quote a text that contains commas)" : ""));
    }
  }

 private:
  const char* kind() const {
    return node_.IsMap() ? "map" : node_.IsSequence() ? "list" : "single value";
  }
  const std::string* file_;
  std::string key_;
  YAML::Node node_;
  int line_;
};

PortConfig::Kind device_kind(const Value& v, std::string& device) {
  static const std::regex kPci("([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\\.[0-7](,.*)?");
  static const std::string kWant =
      "an interface (eth0), a PCI address (0000:01:00.0) or DPDK devargs (net_xxx,args)";
  if (device.starts_with("kernel:"))
    device.erase(0, 7);
  else if (std::regex_match(device, kPci)) {
    if (device.find(':') == 2) device.insert(0, "0000:");
    return PortConfig::Kind::kPci;
  } else if (device.starts_with("net_") || device.starts_with("eth_")) {
    return PortConfig::Kind::kVdev;
  }
  // As the kernel has it: dev_valid_name() wants 1 to 15 characters, without these.
  if (device.empty() || device.size() > 15 || device.find_first_of(":,/ \t\n") != std::string::npos)
    v.fail(fmt::format("'{}' is not a device; give {}", device, kWant));
  return PortConfig::Kind::kKernel;
}

PortConfig read_port(const Value& v, uint16_t default_mtu) {
  PortConfig p;
  p.mtu = default_mtu;
  p.mtu_line = v.line();
  v.map("device, mtu", [&](const std::string& name, const Value& x) {
    if (name == "device") {
      p.device = x.text("an interface, a PCI address or DPDK devargs");
      p.line = x.line();
      p.kind = device_kind(x, p.device);
    } else if (name == "mtu") {
      p.mtu = static_cast<uint16_t>(x.number(kMinMtu, kMaxMtu, "B"));
      p.mtu_line = x.line();
    } else {
      return false;
    }
    return true;
  });
  if (p.device.empty()) v.fail("has no device; add `device: eth0`, for instance");
  return p;
}

std::vector<PairConfig> read_pairs(const Value& v) {
  std::vector<PairConfig> pairs;
  std::vector<std::string> used;
  for (const Value& item : v.list("pairs, each with `outside` and `inside`")) {
    PairConfig pair;
    item.map("outside, inside", [&](const std::string& name, const Value& x) {
      if (name == "outside")
        pair.outside = read_port(x, 1500);
      else if (name == "inside")
        pair.inside = read_port(x, 9000);
      else
        return false;
      return true;
    });
    if (pair.outside.device.empty())
      item.fail("has no `outside` port; add `outside: {device: ..., mtu: 1500}`");
    if (pair.inside.device.empty())
      item.fail("has no `inside` port; add `inside: {device: ..., mtu: 9000}`");
    if (pair.inside.mtu <= pair.outside.mtu)
      item.fail(
          fmt::format("the inside MTU {} is not above the outside MTU {}; there is something to "
                      "merge only if it is",
                      pair.inside.mtu, pair.outside.mtu));
    for (const PortConfig* p : {&pair.outside, &pair.inside}) {
      if (std::find(used.begin(), used.end(), p->device) != used.end())
        item.fail(fmt::format("device {} is used twice; each port belongs to one side of one pair",
                              p->device));
      used.push_back(p->device);
    }
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty()) v.fail("is empty; give at least one pair of ports");
  if (pairs.size() > kMaxPairs)
    v.fail(fmt::format("{} pairs; at most {} are possible", pairs.size(), kMaxPairs));
  return pairs;
}

struct ListedPrefix {
  Prefix prefix;
  Value at;
};

std::vector<ListedPrefix> read_prefixes(const Value& v) {
  std::vector<ListedPrefix> out;
  for (const Value& item : v.list("prefixes, as [192.0.2.0/24, 2001:db8::/32]")) {
    Prefix p;
    try {
      p = parse_prefix(item.text("a prefix"));
    } catch (const std::invalid_argument& e) {
      item.fail(e.what());
    }
    for (const ListedPrefix& other : out)
      if (covers(other.prefix, p) || covers(p, other.prefix))
        item.fail(fmt::format("{} overlaps {} in line {}; keep the wider one", to_string(p),
                              to_string(other.prefix), other.at.line()));
    out.push_back({p, item});
  }
  return out;
}

std::vector<Prefix> plain(const std::vector<ListedPrefix>& list) {
  std::vector<Prefix> out;
  for (const ListedPrefix& l : list) out.push_back(l.prefix);
  return out;
}

// Lists that contradict each other: a prefix that could never have an effect is a mistake.
void check_lists(const std::vector<ListedPrefix>& include, const std::vector<ListedPrefix>& exclude,
                 const std::vector<ListedPrefix>& jumbo) {
  for (const ListedPrefix& x : exclude)
    for (const auto* list : {&include, &jumbo})
      for (const ListedPrefix& i : *list)
        if (covers(x.prefix, i.prefix))
          x.at.fail(fmt::format("{} takes out all of {} ({}, line {}); remove one of them",
                                to_string(x.prefix), to_string(i.prefix), i.at.key(), i.at.line()));
  for (const ListedPrefix& j : jumbo) {
    const bool used =
        include.empty() || std::any_of(include.begin(), include.end(), [&](const ListedPrefix& i) {
          return covers(i.prefix, j.prefix) || covers(j.prefix, i.prefix);
        });
    if (!used)
      j.at.fail(fmt::format("{} is in no prefix of `include`; add it there", to_string(j.prefix)));
  }
}

template <int kFamily, size_t N>
std::array<uint8_t, N> read_address(const Value& v) {
  std::array<uint8_t, N> a{};
  const char* want =
      kFamily == AF_INET ? "an IPv4 address, as 192.0.2.1" : "an IPv6 address, as 2001:db8::1";
  const std::string s = v.text(want);
  if (inet_pton(kFamily, s.c_str(), a.data()) != 1)
    v.fail(fmt::format("'{}' is not an address; give {}", s, want));
  return a;
}

void read_early_merge(const Value& v, Policy& p) {
  p.merge_early_packets = 10;
  v.map("segments, packets", [&](const std::string& name, const Value& x) {
    if (name == "segments")
      p.merge_early_segs = static_cast<uint8_t>(x.number(2, 16));
    else if (name == "packets")
      p.merge_early_packets = static_cast<uint8_t>(x.number(1, 255));
    else
      return false;
    return true;
  });
  if (p.merge_early_segs == 0)
    v.fail("segments: is missing; give the most segments of an early packet, 2 for instance");
}

void read_icmp(const Value& v, Policy& p) {
  v.map("from4, from6, per_second", [&](const std::string& name, const Value& x) {
    if (name == "from4")
      p.icmp_from4 = read_address<AF_INET, 4>(x);
    else if (name == "from6")
      p.icmp_from6 = read_address<AF_INET6, 16>(x);
    else if (name == "per_second")
      p.icmp_per_second = static_cast<uint32_t>(x.number(0, 1'000'000));
    else
      return false;
    return true;
  });
}

void read_buffers(const Value& v, Config& c) {
  v.map("small, large", [&](const std::string& name, const Value& x) {
    if (name == "small")
      c.small_buffers = static_cast<uint32_t>(x.number(1024, 1u << 24));
    else if (name == "large")
      c.large_buffers = static_cast<uint32_t>(x.number(1024, 1u << 22));
    else
      return false;
    return true;
  });
}

void read_eal(const Value& v, Config& c) {
  v.map("hugepages, memory_mb, extra", [&](const std::string& name, const Value& x) {
    using Choice = std::pair<std::string_view, Config::Pages>;
    if (name == "hugepages")
      c.hugepages = x.one_of(std::array{Choice{"auto", Config::Pages::kAuto},
                                        Choice{"yes", Config::Pages::kYes},
                                        Choice{"no", Config::Pages::kNo}});
    else if (name == "memory_mb")
      c.memory_mb = static_cast<uint32_t>(x.number(64, 1u << 20, "MiB"));
    else if (name == "extra")
      for (const Value& item : x.list("EAL arguments"))
        c.eal_extra.push_back(item.text("an EAL argument"));
    else
      return false;
    return true;
  });
}

void read_cpus(const Value& v, Config& c) {
  for (const Value& item : v.list("CPU numbers, one a worker")) {
    const auto cpu = static_cast<uint16_t>(item.number(0, 1023));
    if (std::find(c.cpus.begin(), c.cpus.end(), cpu) != c.cpus.end())
      item.fail(fmt::format("CPU {} is given twice; a worker needs one for itself", cpu));
    c.cpus.push_back(cpu);
  }
}

class Reader {
 public:
  explicit Reader(Config& c) : c_(c), p_(c.policy) {}

  void read(const Value& top) {
    top.map(
        "pairs, workers, cpus, hold_us, idle, include, exclude, jumbo, safe_mtu, "
        "max_split_segments, early_merge, icmp, flows, "
        "flow_timeout_s, pmtu_timeout_s, control, buffers, eal",
        [this](const std::string& name, const Value& v) {
          return key(name, v) || policy_key(name, v);
        });
    if (c_.pairs.empty())
      throw ConfigError(
          fmt::format("{}:1: pairs: is missing; give at least one pair of ports", c_.file));
    check_lists(include_, exclude_, jumbo_);
    p_.include = plain(include_);
    p_.exclude = plain(exclude_);
    p_.jumbo = plain(jumbo_);
    if (cpus_ && c_.cpus.size() != c_.workers)
      cpus_->fail(
          fmt::format("names {} CPUs for {} workers; give one a worker, or leave the key out",
                      c_.cpus.size(), c_.workers));
    for (size_t i = 0; safe_ && i < c_.pairs.size(); ++i)
      if (p_.safe_mtu > c_.pairs[i].outside.mtu)
        safe_->fail(fmt::format("{} is above the outside MTU {} of pairs[{}]; give at most that",
                                p_.safe_mtu, c_.pairs[i].outside.mtu, i));
  }

 private:
  bool key(const std::string& name, const Value& v) {
    using Choice = std::pair<std::string_view, Config::Idle>;
    if (name == "pairs")
      c_.pairs = read_pairs(v);
    else if (name == "workers")
      c_.workers = static_cast<uint16_t>(v.number(1, kMaxWorkers));
    else if (name == "cpus")
      read_cpus(*(cpus_ = v), c_);
    else if (name == "idle")
      c_.idle = v.one_of(
          std::array{Choice{"sleep", Config::Idle::kSleep}, Choice{"spin", Config::Idle::kSpin}});
    else if (name == "control")
      read_control(v);
    else if (name == "flows")
      c_.flows = static_cast<uint32_t>(v.number(1024, 1u << 28));
    else if (name == "buffers")
      read_buffers(v, c_);
    else if (name == "eal")
      read_eal(v, c_);
    else
      return false;
    return true;
  }

  // What a running gateway takes over.
  bool policy_key(const std::string& name, const Value& v) {
    if (name == "hold_us")
      p_.hold_limit = std::chrono::microseconds(v.number(0, 1000, "us"));
    else if (name == "include")
      include_ = read_prefixes(v);
    else if (name == "exclude")
      exclude_ = read_prefixes(v);
    else if (name == "jumbo")
      jumbo_ = read_prefixes(v);
    else if (name == "safe_mtu")
      p_.safe_mtu = static_cast<uint16_t>((safe_ = v)->number(kMinMtu, kMaxMtu, "B"));
    else if (name == "max_split_segments")
      p_.max_split_segs = static_cast<uint16_t>(v.number(8, pxio::kMaxSplit));
    else if (name == "early_merge")
      read_early_merge(v, p_);
    else if (name == "icmp")
      read_icmp(v, p_);
    else if (name == "flow_timeout_s")
      p_.flow_timeout = std::chrono::seconds(v.number(10, 86400, "s"));
    else if (name == "pmtu_timeout_s")
      p_.pmtu_timeout = std::chrono::seconds(v.number(60, 86400, "s"));
    else
      return false;
    return true;
  }

  void read_control(const Value& v) {
    c_.control = v.text("the path of a socket");
    if (c_.control.empty() || c_.control[0] != '/')
      v.fail(fmt::format("'{}' is not an absolute path; give one, as {}", c_.control,
                         kDefaultControl));
    if (c_.control.size() > 107)
      v.fail("is longer than the 107 bytes that a socket's path may have; give a shorter one");
  }

  Config& c_;
  Policy& p_;
  std::vector<ListedPrefix> include_, exclude_, jumbo_;
  std::optional<Value> cpus_, safe_;
};

// Where the content of a document begins, and nothing else.
struct DocumentStart : YAML::EventHandler {
  int line = 0;
  bool empty = true;
  void at(const YAML::Mark& m) {
    if (std::exchange(empty, false)) line = m.line + 1;
  }
  void OnDocumentStart(const YAML::Mark& m) override {
    line = m.line + 1;
    empty = true;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark& m, const std::string&, YAML::anchor_t,
                const std::string&) override {
    at(m);
  }
  void OnSequenceStart(const YAML::Mark& m, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    at(m);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& m, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    at(m);
  }
  void OnMapEnd() override {}
};

// The line of the second document, 0: there is none. YAML::LoadAll would tell, but doesn't come back
// from `"5", m4]` (yaml-cpp 0.7).
int second_document(const std::string& text) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  DocumentStart start;
  if (!parser.HandleNextDocument(start)) return 0;
  return parser.HandleNextDocument(start) ? start.line : 0;
}

}  // namespace

Policy Config::policy_of(size_t pair) const {
  Policy p = policy;
  p.inside_mtu = pairs[pair].inside.mtu;
  p.outside_mtu = pairs[pair].outside.mtu;
  return p;
}

Config parse_config(const std::string& text, const std::string& file_name) {
  Config c;
  c.file = file_name;
  YAML::Node document;
  try {
    if (const int line = second_document(text); line != 0)
      throw ConfigError(
          fmt::format("{}:{}: holds more than one document; keep one", file_name, line));
    document = YAML::Load(text);
  } catch (const YAML::Exception& e) {
    throw ConfigError(fmt::format("{}:{}: not YAML: {}; see conf/ for examples", file_name,
                                  e.mark.line + 1, e.msg));
  }
  if (document.IsNull())
    throw ConfigError(fmt::format(
        "{}:1: pairs: is missing, the file is empty; give at least one pair of ports", file_name));
  if (!document.IsMap())
    throw ConfigError(fmt::format(
        "{}:1: is not a map of keys; write `pairs:` and what follows from it, see conf/",
        file_name));
  Reader(c).read(Value(c.file, "", document, 1));
  return c;
}

Config load_config(const std::string& path) {
  std::ifstream in(path);
  if (!in)
    throw ConfigError(fmt::format("{}: can't be read ({}); give the path of a configuration file",
                                  path, std::generic_category().message(errno)));
  std::string text(1u << 20, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (in.bad() || (text.empty() && !in.eof()))
    throw ConfigError(
        fmt::format("{}: can't be read; give the path of a configuration file", path));
  if (!in.eof())
    throw ConfigError(fmt::format("{}: is larger than 1 MiB; is it a configuration file?", path));
  return parse_config(text, path);
}

}  // namespace pxgw
