// SPDX-License-Identifier: BSD-3-Clause
// One value of the configuration file with its path and place, and what may stand there. Control thread.
#pragma once
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pxgw/ctl/config.h"

namespace pxgw {

inline int line_of(const YAML::Node& n) { return n.Mark().line + 1; }

// All functions throw ConfigError where something else stands there.
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

struct ListedPrefix {
  Prefix prefix;
  Value at;
};
// A list of prefixes that don't overlap.
std::vector<ListedPrefix> read_prefixes(const Value& v);

// The value of `pairs`.
std::vector<PairConfig> read_pairs(const Value& v);
// The value of `caravan`, and what stands without it.
void read_caravan(const Value& v, Config& c);
void set_caravan_defaults(Policy& p);
// The value of `pmtu`; the prefixes of `answer` are returned in `answer`.
void read_pmtu(const Value& v, Config& c, std::vector<ListedPrefix>& answer);

}  // namespace pxgw
