// SPDX-License-Identifier: BSD-3-Clause
// Counters for people and programs: sums, JSON, the table of `pxgw stats` and the summary of
// `pxgw translate`. All come from the .def files, the one list of counters. Control thread.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "pxgw/dp/counters.h"

namespace pxgw {

using Json = nlohmann::ordered_json;  // keeps the order of the .def files

// now - before, counter by counter; the state fields are those of `now`.
Counters difference(const Counters& now, const Counters& before) noexcept;

// {"gateway": {name: value}, "engine": {...}, "sizes": {...}, "hold": {...}, "state": {...},
//  "yield_pct": number or null, "unaccounted": number}
Json to_json(const Counters& c);
// The inverse. Counters that the JSON doesn't have are 0: another version may have written it.
Counters counters_from_json(const Json& j);

// Of the inbound full-size segments whose receiver takes jumbos, the share in percent that left in
// packets to which no further one could have been added. None came: no value.
std::optional<double> yield_pct(const Counters& c) noexcept;

// Packets received, made and cut that are neither sent, held, dropped nor kept: 0, or the gateway
// lost or doubled some. Exact where the counters were copied between two bursts.
int64_t unaccounted(const Counters& c) noexcept;

struct SummaryOptions {
  bool all = false;                  // rows that are zero too
  const Counters* before = nullptr;  // for rates: the counters `seconds` earlier
  double seconds = 0;
};
// The table for people, ends with a newline.
std::string summary(const Counters& c, const SummaryOptions& options = {});

// docs/counters.md, whole.
std::string describe_counters();

// 1234567 as "1,234,567".
std::string with_commas(uint64_t n);
// Bytes as "1.23 MB".
std::string human_bytes(double bytes);

}  // namespace pxgw
