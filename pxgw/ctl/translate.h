// SPDX-License-Identifier: BSD-3-Clause
// `pxgw translate`: what the gateway would have made of a capture. Control thread.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pxgw/ctl/capture.h"
#include "pxgw/ctl/replay.h"
#include "pxgw/ctl/stats.h"
#include "pxgw/dp/gateway.h"
#include "pxgw/dp/policy.h"
#include "pxio/dp/buffers.h"

namespace pxgw {

struct TranslateOptions {
  std::string in, out;
  std::vector<std::string> internal;  // prefixes
  uint32_t inside_mtu = 9000, outside_mtu = 1500;
  uint32_t hold_us = 50;
  uint32_t inside_mss = 0;  // 0: what the SYNs say
  uint32_t flows = 1u << 18;
  std::optional<std::string> json;  // a file; empty: standard output
  bool quiet = false;
};

// Throws std::runtime_error naming the option that is out of range.
Policy make_policy(const TranslateOptions& options);

// Translates `in` to options.out with EAL running. The output is complete or, where this throws, as
// it was before.
ReplayTotals translate(const TranslateOptions& options, CaptureReader& in, pxio::Buffers buffers);

Json to_json(const TranslateOptions& options, const ReplayTotals& totals);
std::string summary(const TranslateOptions& options, const ReplayTotals& totals, double seconds);

// Adds the subcommand; where it ran, exit_code says how it went.
CLI::App* add_translate(CLI::App& app, int& exit_code);

}  // namespace pxgw
