// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/config.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "pxgw/ctl/config_value.h"
#include "pxio/dp/split.h"

namespace pxgw {

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

namespace {

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
    set_caravan_defaults(p_);
    top.map(
        "pairs, workers, cpus, hold_us, idle, include, exclude, jumbo, safe_mtu, "
        "max_split_segments, early_merge, icmp, flows, "
        "flow_timeout_s, pmtu_timeout_s, pmtu, caravan, control, buffers, eal",
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
    for (const ListedPrefix& a : answer_)
      for (const ListedPrefix& x : exclude_)
        if (covers(x.prefix, a.prefix))
          a.at.fail(fmt::format("`exclude` takes out all of {} (line {}); remove one of them",
                                to_string(a.prefix), x.at.line()));
    p_.probing.answer = plain(answer_);
    check_mtus();
    // One more may be for the fan-out; see FanoutPort.
    if (cpus_ && c_.cpus.size() != c_.workers && c_.cpus.size() != c_.workers + 1u)
      cpus_->fail(fmt::format("names {} CPUs for {} workers; give one a worker (and one more for a fan-out), or "
                              "leave the key out",
                              c_.cpus.size(), c_.workers));
    for (size_t i = 0; safe_ && i < c_.pairs.size(); ++i)
      if (p_.safe_mtu > c_.pairs[i].outside.mtu)
        safe_->fail(fmt::format("{} is above the outside MTU {} of pairs[{}]; give at most that",
                                p_.safe_mtu, c_.pairs[i].outside.mtu, i));
  }

 private:
  void check_mtus() const {
    for (size_t i = 0; i < c_.pairs.size(); ++i) {
      const PairConfig& pair = c_.pairs[i];
      const uint16_t in = pair.inside.mtu, out = pair.outside.mtu, assumed = c_.policy_of(i).assumed_path();
      const auto fail = [&](const std::string& what) {
        throw ConfigError(fmt::format("{}:{}: pairs[{}]: {}", c_.file, pair.line, i, what));
      };
      if (in > out || (in == out && out > assumed)) continue;
      if (in == out)
        fail(fmt::format("the inside MTU {} is not above the outside MTU {}; there is something to merge only "
                         "if it is, or if `pmtu.assume` is below both",
                         in, out));
      fail(fmt::format("the inside MTU {} is below the outside MTU {}; swap the ports, or lower the latter", in,
                       out));
    }
  }

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
      p_.max_split_segs = static_cast<uint16_t>(v.number(8, 256));
    else if (name == "early_merge")
      read_early_merge(v, p_);
    else if (name == "icmp")
      read_icmp(v, p_);
    else if (name == "flow_timeout_s")
      p_.flow_timeout = std::chrono::seconds(v.number(10, 86400, "s"));
    else if (name == "caravan")
      read_caravan(v, c_);
    else if (name == "pmtu")
      read_pmtu(v, c_, answer_);
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
  std::vector<ListedPrefix> include_, exclude_, jumbo_, answer_;
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
  p.assumed_mtu = pmtu.assume.value_or(policy.probing.probe ? kEthernetMtu : kMaxMtu);
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
