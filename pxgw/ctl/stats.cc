// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <numeric>
#include <string_view>

namespace pxgw {
namespace {

constexpr size_t kWords = sizeof(Counters) / sizeof(uint64_t);
using Words = std::array<uint64_t, kWords>;

Words words_of(const Counters& c) noexcept { return std::bit_cast<Words>(c); }
Counters counters_of(const Words& w) noexcept { return std::bit_cast<Counters>(w); }

struct Description {
  std::string_view name, unit, sentence;
  uint64_t (*get)(const Counters&);
};

constexpr Description kGateway[] = {
#define PX_COUNTER(name, unit, sentence) \
  {#name, unit, sentence, [](const Counters& c) { return c.name; }},
#include "pxgw/dp/counters.def"
#undef PX_COUNTER
};
constexpr Description kCaravan[] = {
#define PX_COUNTER(name, unit, sentence) \
  {#name, unit, sentence, [](const Counters& c) { return c.caravan.name; }},
#include "caravan/dp/counters.def"
#undef PX_COUNTER
};
constexpr Description kEngine[] = {
#define PX_COUNTER(name, unit, sentence) \
  {#name, unit, sentence, [](const Counters& c) { return c.engine.name; }},
#include "pxio/dp/counters.def"
#undef PX_COUNTER
};

// Counters are grouped by how their names begin; the first group that fits has them.
struct Group {
  std::string_view title;
  std::array<std::string_view, 7> prefixes;
  std::string_view note;  // for docs/counters.md
};
constexpr Group kGroups[] = {
    {"Traffic",
     {"in_", "out_", "to_inside_", "to_outside_"},
     "Frames as they came and as they left. Inbound runs outside to inside and is merged, outbound "
     "runs inside to outside and is split."},
    {"Why held packets left",
     {"merge_end_"},
     "Each packet that was held while segments were appended to it left for one of these reasons."},
    {"Merge and split", {"merge_", "split_"}, ""},
    {"MSS", {"syn_"}, "What happened to the MSS option of SYN and SYN-ACK segments."},
    {"Left untouched", {"pass_"}, "Packets that passed bit for bit, by reason."},
    {"Dropped", {"drop_"}, "Packets that were lost in the gateway, by reason."},
    {"Path MTU and fragments", {"frag_", "icmp_", "ptb_", "pmtu_", "probe_"}, ""},
    {"Flows", {"flow_"}, ""},
    {"Caravans", {"bundle_", "unbundle_", "observed_", "spaced", "hello_", "udp_cut_", "reassembl"}, ""},
};

const Group* group_of(std::string_view name) {
  for (const Group& g : kGroups)
    for (std::string_view p : g.prefixes)
      if (!p.empty() && name.starts_with(p)) return &g;
  return nullptr;
}

std::string rate_text(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.2f} M/s", per_second / 1e6);
  if (per_second >= 1e4) return fmt::format("{:.1f} k/s", per_second / 1e3);
  return fmt::format("{:.0f} /s", per_second);
}

// Writes the sections of the table one after another.
class Table {
 public:
  Table(const Counters& c, const SummaryOptions& o)
      : c_(c), o_(o), delta_(o.before != nullptr ? difference(c, *o.before) : c) {}

  std::string text() {
    traffic();
    sizes();
    yield();
    for (const Group& g : kGroups)
      if (&g != &kGroups[0]) rows(g);
    hold();
    line("\nState\n");
    line("  flows {}, packets held {}, handshakes open {}\n", with_commas(c_.flows),
         with_commas(c_.held_pkts), with_commas(c_.handshakes));
    if (const int64_t n = unaccounted(c_); n != 0)
      line("  {} packets are unaccounted for: received, but neither sent, held nor dropped\n", n);
    return std::move(out_);
  }

 private:
  bool rates() const { return o_.before != nullptr && o_.seconds > 0; }

  template <typename... Args>
  void line(fmt::format_string<Args...> f, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), f, std::forward<Args>(args)...);
  }

  void traffic() {
    line("Traffic{:>32}{:>12}\n", "packets", "bytes");
    traffic_row("inbound   received", c_.in_pkts, c_.in_bytes, delta_.in_pkts, delta_.in_bytes);
    traffic_row("          sent inside", c_.to_inside_pkts, c_.to_inside_bytes,
                delta_.to_inside_pkts, delta_.to_inside_bytes);
    traffic_row("outbound  received", c_.out_pkts, c_.out_bytes, delta_.out_pkts, delta_.out_bytes);
    traffic_row("          sent outside", c_.to_outside_pkts, c_.to_outside_bytes,
                delta_.to_outside_pkts, delta_.to_outside_bytes);
  }

  void traffic_row(std::string_view label, uint64_t pkts, uint64_t bytes, uint64_t new_pkts,
                   uint64_t new_bytes) {
    line("  {:<22}{:>15}{:>12}", label, with_commas(pkts), human_bytes(static_cast<double>(bytes)));
    if (rates())
      line("{:>12}{:>14}", rate_text(static_cast<double>(new_pkts) / o_.seconds),
           fmt::format("{:.1f} Mb/s", static_cast<double>(new_bytes) * 8e-6 / o_.seconds));
    line("\n");
  }

  // One line a bin: how many packets came and left at that size, and their share as a bar.
  void sizes() {
    for (size_t d = 0; d < 2; ++d) {
      const auto& in = delta_.size_in[d];
      const auto& out = delta_.size_out[d];
      const uint64_t n_in = std::accumulate(in.begin(), in.end(), uint64_t{0});
      const uint64_t n_out = std::accumulate(out.begin(), out.end(), uint64_t{0});
      if (n_in + n_out == 0 && !o_.all) continue;
      line("\nPacket sizes, {}{:>21} {:<20}{:>14} {}\n", d == 0 ? "inbound " : "outbound",
           "received", "", "sent", "");
      for (size_t b = 0; b < in.size(); ++b) {
        if (in[b] + out[b] == 0 && !o_.all) continue;
        line("  {:<16}{:>25} {:<20}{:>14} {}\n", bin_label(b), with_commas(in[b]), bar(in[b], n_in),
             with_commas(out[b]), bar(out[b], n_out));
      }
    }
  }

  static std::string bin_label(size_t b) {
    const uint32_t low = b == 0 ? 0 : kSizeBounds[b - 1] + 1;
    if (b == kSizeBounds.size()) return fmt::format("{:>5} ...", low);
    return fmt::format("{:>5} ... {:>4}", low, kSizeBounds[b]);
  }

  // Up to 16 characters; anything at all shows.
  static std::string bar(uint64_t n, uint64_t of) {
    if (n == 0) return "";
    const auto len = static_cast<size_t>(16.0 * static_cast<double>(n) / static_cast<double>(of));
    return std::string(std::max<size_t>(len, 1), '#');
  }

  void yield() {
    const auto y = yield_pct(delta_);
    line("\nYield: ");
    if (!y) {
      line("no full-size segments towards receivers of jumbos yet\n");
      return;
    }
    const auto& e = delta_.engine;
    line("{:.2f} % ({} of {} full-size segments left in packets that could take no further one)\n",
         *y, with_commas(e.merge_bulk_full), with_commas(e.merge_bulk_in));
    line("       {:.2f} % in packets of 8000 B and more\n",
         100.0 * static_cast<double>(e.merge_bulk_jumbo) / static_cast<double>(e.merge_bulk_in));
  }

  void rows(const Group& g) {
    bool titled = false;
    const auto row = [&](const Description& d) {
      if (group_of(d.name) != &g || (d.get(c_) == 0 && !o_.all)) return;
      if (!std::exchange(titled, true)) line("\n{}\n", g.title);
      line("  {:<22}{:>15}", d.name, with_commas(d.get(c_)));
      if (rates()) line("{:>12}", rate_text(static_cast<double>(d.get(delta_)) / o_.seconds));
      line("  {}\n", d.sentence);
    };
    for (const Description& d : kEngine) row(d);
    for (const Description& d : kGateway) row(d);
    for (const Description& d : kCaravan) row(d);
  }

  void hold() {
    const uint64_t all = std::accumulate(delta_.hold.begin(), delta_.hold.end(), uint64_t{0});
    if (all == 0 && !o_.all) return;
    line("\nTime held\n");
    for (size_t k = 0; k < delta_.hold.size(); ++k) {
      if (delta_.hold[k] == 0 && !o_.all) continue;
      const bool open = k + 1 == delta_.hold.size();
      line("  {:<22}{:>15}  {}\n",
           fmt::format("{} {} us", open ? "from" : "below", 1u << (open ? k - 1 : k)),
           with_commas(delta_.hold[k]), bar(delta_.hold[k], all));
    }
  }

  const Counters& c_;
  const SummaryOptions& o_;
  const Counters delta_;
  std::string out_;
};

}  // namespace

Counters difference(const Counters& now, const Counters& before) noexcept {
  Words a = words_of(now);
  const Words b = words_of(before);
  // A gateway that was started again counts from 0: better no rate than an enormous one.
  for (size_t i = 0; i < kWords; ++i) a[i] -= std::min(a[i], b[i]);
  Counters d = counters_of(a);
  static_cast<State&>(d) = now;
  return d;
}

Json to_json(const Counters& c) {
  Json j;
  for (const Description& d : kGateway) j["gateway"][std::string(d.name)] = d.get(c);
  for (const Description& d : kEngine) j["engine"][std::string(d.name)] = d.get(c);
  for (const Description& d : kCaravan) j["caravan"][std::string(d.name)] = d.get(c);
  j["sizes"]["upper_bounds"] = kSizeBounds;
  for (size_t d = 0; d < 2; ++d) {
    Json& side = j["sizes"][d == 0 ? "inbound" : "outbound"];
    side["received"] = c.size_in[d];
    side["sent"] = c.size_out[d];
  }
  Json below = Json::array();
  for (size_t k = 0; k + 1 < kHoldBins; ++k) below.push_back(1u << k);
  j["hold"] = {{"below_us", below}, {"packets", c.hold}};
  j["state"] = {{"flows", c.flows},
                {"held_pkts", c.held_pkts},
                {"handshakes", c.handshakes},
                {"caravan_held", c.caravan_held},
                {"fragments_held", c.fragments_held}};
  const auto y = yield_pct(c);
  j["yield_pct"] = y ? Json(*y) : Json(nullptr);
  j["unaccounted"] = unaccounted(c);
  return j;
}

Counters counters_from_json(const Json& j) {
  Counters c;
  const auto get = [](const Json& from, std::string_view key, uint64_t& to) {
    const auto it = from.find(std::string(key));
    if (it != from.end() && it->is_number_unsigned()) to = it->get<uint64_t>();
  };
  const auto get_array = [](const Json& from, auto& to) {
    for (size_t i = 0; from.is_array() && i < to.size() && i < from.size(); ++i)
      if (from[i].is_number_unsigned()) to[i] = from[i].get<uint64_t>();
  };
  const Json empty = Json::object();
  const auto child = [&empty](const Json& from, const char* key) -> const Json& {
    const auto it = from.find(key);
    return it != from.end() ? *it : empty;
  };
#define PX_COUNTER(name, unit, sentence) get(child(j, "gateway"), #name, c.name);
#include "pxgw/dp/counters.def"
#undef PX_COUNTER
#define PX_COUNTER(name, unit, sentence) get(child(j, "caravan"), #name, c.caravan.name);
#include "caravan/dp/counters.def"
#undef PX_COUNTER
#define PX_COUNTER(name, unit, sentence) get(child(j, "engine"), #name, c.engine.name);
#include "pxio/dp/counters.def"
#undef PX_COUNTER
  for (size_t d = 0; d < 2; ++d) {
    const Json& side = child(child(j, "sizes"), d == 0 ? "inbound" : "outbound");
    get_array(child(side, "received"), c.size_in[d]);
    get_array(child(side, "sent"), c.size_out[d]);
  }
  get_array(child(child(j, "hold"), "packets"), c.hold);
  const Json& state = child(j, "state");
  get(state, "flows", c.flows);
  get(state, "held_pkts", c.held_pkts);
  get(state, "handshakes", c.handshakes);
  get(state, "caravan_held", c.caravan_held);
  get(state, "fragments_held", c.fragments_held);
  return c;
}

std::optional<double> yield_pct(const Counters& c) noexcept {
  if (c.engine.merge_bulk_in == 0) return std::nullopt;
  return 100.0 * static_cast<double>(c.engine.merge_bulk_full) /
         static_cast<double>(c.engine.merge_bulk_in);
}

int64_t unaccounted(const Counters& c) noexcept {
  const auto& e = c.engine;
  const uint64_t held_left = e.merge_end_full + e.merge_end_push + e.merge_end_gap +
                             e.merge_end_flags + e.merge_end_options + e.merge_end_headers +
                             e.merge_end_backward + e.merge_end_checksum + e.merge_end_segs +
                             e.merge_end_burst + e.merge_end_hold + e.merge_end_other +
                             e.merge_end_drain;
  // Held packets that left alone are segments as well as packets.
  const uint64_t segs_held =
      e.merge_held_segs - e.merge_out_segs - (held_left - e.merge_out_merged);
  const uint64_t received = c.in_pkts + c.out_pkts;
  const uint64_t sent = c.to_inside_pkts + c.to_outside_pkts;
  const uint64_t made =
      (e.split_out_segs - e.split_in_pkts) + (c.frag_out_pkts - c.frag_in_pkts) + c.icmp_sent +
      c.probe_sent + c.probe_reports;
  const caravan::Counters& b = c.caravan;
  // A caravan that was refused became nothing.
  const uint64_t unbundled = b.unbundle_out - b.unbundle_in;
  const uint64_t merged_away =
      e.merge_out_segs - e.merge_out_merged + b.bundle_out_datagrams - b.bundle_out_caravans +
      c.reassembled_fragments - c.reassembled_pkts - (c.udp_cut_datagrams - c.udp_cut_pkts);
  const uint64_t dropped = c.drop_split_checksum + c.drop_split_segments + c.drop_no_buffer +
                           c.drop_too_big + c.ptb_taken + c.ptb_ignored + c.probe_answers +
                           c.probe_errors + c.probe_taken + c.drop_hello + c.drop_caravan_foreign + c.caravan_held +
                           c.fragments_held;
  return static_cast<int64_t>(received + made + unbundled - merged_away - segs_held - dropped - sent);
}

std::string summary(const Counters& c, const SummaryOptions& options) {
  return Table(c, options).text();
}

std::string describe_counters() {
  std::string out =
      "# Counters\n\n"
      "Made by `pxgw stats --describe`; don't edit. The names are those of `pxgw stats --json`, "
      "under\n"
      "`gateway` and `engine`.\n";
  for (const Group& g : kGroups) {
    out += fmt::format("\n## {}\n\n", g.title);
    if (!g.note.empty()) out += fmt::format("{}\n\n", g.note);
    out += "| counter | unit | counts |\n|---|---|---|\n";
    const auto row = [&](const Description& d) {
      if (group_of(d.name) == &g)
        out += fmt::format("| `{}` | {} | {} |\n", d.name, d.unit, d.sentence);
    };
    for (const Description& d : kEngine) row(d);
    for (const Description& d : kGateway) row(d);
    for (const Description& d : kCaravan) row(d);
  }
  return out;
}

std::string with_commas(uint64_t n) {
  std::string s = std::to_string(n);
  for (size_t i = s.size(); i > 3; i -= 3) s.insert(i - 3, 1, ',');
  return s;
}

std::string human_bytes(double bytes) {
  static constexpr std::array<std::string_view, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t u = 0;
  while (bytes >= 1000 && u + 1 < kUnits.size()) {
    bytes /= 1000;
    ++u;
  }
  return u == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[u]);
}

}  // namespace pxgw
