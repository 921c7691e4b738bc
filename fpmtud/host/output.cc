// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/host/output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace fpmtud {
namespace {

using Json = nlohmann::ordered_json;

struct NoteText {
  Note note;
  const char* name;
  const char* text;
};
constexpr NoteText kNotes[] = {
    {kFragmentsFiltered, "fragments_filtered", "fragments are dropped on the way"},
    {kReassembler, "reassembler",
     "a box on the way reassembles: larger fragments arrived than what passes"},
    {kDfCleared, "df_cleared", "a box on the way fragments what must not be fragmented"},
    {kLoss, "loss", "probes were lost"},
    {kRateLimited, "rate_limited", "the responder limits how much it answers"},
    {kIcmpFalse, "icmp_false", "an ICMP error named a smaller MTU than what passes"},
    {kViaEcho, "via_echo", "no responder: measured by ICMP echo, both directions in one"},
};

double ms(Time t) { return std::chrono::duration<double, std::milli>(t).count(); }

const char* how_text(How h) {
  switch (h) {
    case How::kFragment:
      return "fragment";
    case How::kLadder:
      return "ladder";
    case How::kBoth:
      return "both";
    case How::kNone:
      break;
  }
  return "none";
}

const char* verdict_text(Verdict v) {
  switch (v) {
    case Verdict::kMeasured:
      return "measured";
    case Verdict::kLowerBound:
      return "lower_bound";
    case Verdict::kRefused:
      return "refused";
    case Verdict::kSilent:
      break;
  }
  return "silent";
}

bool limited_by_us(const PathMtu& r) { return r.finding.limit == 0; }

std::string value_text(const PathMtu& r) {
  switch (r.verdict) {
    case Verdict::kSilent:
      return "no answer";
    case Verdict::kRefused:
      return "no responder";
    case Verdict::kLowerBound:
      return fmt::format("at least {}", r.finding.mtu);
    case Verdict::kMeasured:
      break;
  }
  return fmt::format("{}", r.finding.mtu);
}

std::string how_line(const PathMtu& r) {
  std::string s = r.finding.how == How::kBoth ? "fragment and ladder" : how_text(r.finding.how);
  if (limited_by_us(r))
    s += ", all that was tried";
  else if (r.finding.exact() && r.proven == r.finding.mtu)
    s += ", exact";
  else
    s += fmt::format(", below {}", r.finding.limit);
  return s;
}

std::vector<std::string> names_of(uint16_t notes) {
  std::vector<std::string> names;
  for (const NoteText& n : kNotes)
    if ((notes & n.note) != 0) names.emplace_back(n.name);
  return names;
}

Json json_of(const PathMtu& r) {
  Json j;
  j["verdict"] = verdict_text(r.verdict);
  j["mtu"] = r.finding.mtu == 0 ? Json() : Json(r.finding.mtu);
  j["how"] = how_text(r.finding.how);
  j["exact"] = r.finding.mtu != 0 && r.finding.exact() && r.proven == r.finding.mtu;
  j["below"] = r.finding.limit == 0 ? Json() : Json(r.finding.limit);
  j["proven"] = r.proven;
  j["largest_fragment"] = r.fragment;
  j["tried_up_to"] = r.top;
  j["round_trips"] = r.round_trips;
  j["rounds"] = r.rounds;
  j["rtt_ms"] = ms(r.rtt);
  j["notes"] = names_of(r.notes);
  return j;
}

}  // namespace

std::string to_text(const TargetResult& r, const ProbeOptions& o) {
  const std::string address = r.target.at.port == 0 ? "" : to_text(r.target.at);
  std::string name = r.target.name;
  if (!address.empty() && address != name) name += fmt::format(" ({})", address);
  if (!r.error.empty()) return fmt::format("{:<28} {}\n", name, r.error);
  if (o.unset_route) return fmt::format("{:<28} route: {}\n", name, r.route);
  const PathMtu& f = r.forward;
  std::string s = fmt::format("{:<28} {}", name, value_text(f));
  if (f.finding.mtu != 0)
    s += fmt::format("  ({}; {} round trip{}, {:.1f} ms)", how_line(f), f.round_trips,
                     f.round_trips == 1 ? "" : "s", ms(f.took));
  s += '\n';
  const auto notes = [&](uint16_t set, const char* way) {
    for (const NoteText& n : kNotes)
      if ((set & n.note) != 0) s += fmt::format("  {}{}\n", way, n.text);
  };
  notes(f.notes, "");
  if (r.paths.differ()) {
    s += "  paths differ by source port:";
    for (const PortPaths::Path& p : r.paths.each())
      s += fmt::format(" {} {}{}", p.port, value_text(p.result),
                       &p == &r.paths.each().back() ? "\n" : ",");
  }
  if (r.reverse) {
    s += fmt::format("  from there: {}", value_text(*r.reverse));
    if (r.reverse->finding.mtu != 0)
      s += fmt::format("  ({}; {} round trip{})", how_line(*r.reverse), r.reverse->round_trips,
                       r.reverse->round_trips == 1 ? "" : "s");
    else
      s += " to what was asked for: the responder refuses, or one direction alone carries probes";
    s += '\n';
    notes(r.reverse->notes, "from there: ");
  }
  if (!r.route.empty()) s += fmt::format("  route: {}\n", r.route);
  if (f.verdict == Verdict::kSilent)
    s += "  no responder, a filter, or another key; this says nothing about the path MTU\n";
  return s;
}

std::string to_json(const TargetResult& r, const ProbeOptions& o) {
  Json j;
  j["target"] = r.target.name;
  if (r.target.at.port != 0) {
    j["address"] = to_text(r.target.at);
    j["family"] = r.target.at.family == Family::kIpv4 ? 4 : 6;
  }
  if (!r.error.empty()) {
    j["error"] = r.error;
  } else if (!o.unset_route) {
    j.update(json_of(r.forward));
    j["ms"] = ms(r.forward.took);
    j["paths_differ"] = r.paths.differ();
    if (r.paths.differ())
      for (const PortPaths::Path& p : r.paths.each()) {
        const uint16_t mtu = p.result.finding.mtu;
        j["paths"].push_back({{"port", p.port}, {"mtu", mtu == 0 ? Json() : Json(mtu)}});
      }
    if (r.reverse) j["reverse"] = json_of(*r.reverse);
  }
  if (!r.route.empty()) {
    j["route"] = r.route;
    j["route_ok"] = !r.route_failed;
  }
  return j.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

ExitCode exit_code(const TargetResult& r, const ProbeOptions& o) {
  if (!r.error.empty() || r.route_failed) return kNotMeasured;
  if (o.unset_route) return kAllMeasured;
  if (r.forward.finding.mtu == 0 || (o.both && (!r.reverse || r.reverse->finding.mtu == 0)))
    return kNotMeasured;
  if (r.forward.verdict == Verdict::kLowerBound ||
      (r.reverse && r.reverse->verdict == Verdict::kLowerBound))
    return kOnlyBound;
  return kAllMeasured;
}

ExitCode worse(ExitCode a, ExitCode b) {
  if (a == kNotMeasured || b == kNotMeasured) return kNotMeasured;
  return a == kOnlyBound || b == kOnlyBound ? kOnlyBound : kAllMeasured;
}

}  // namespace fpmtud
