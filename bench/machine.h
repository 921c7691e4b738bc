// SPDX-License-Identifier: BSD-3-Clause
// What a result was measured on.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace bench {

double tsc_hz();
// Processor, cores, kernel, memory pages and how busy the machine was.
nlohmann::json describe_machine(const std::string& pages);

}  // namespace bench
