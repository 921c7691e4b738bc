// SPDX-License-Identifier: BSD-3-Clause
// Any text as a configuration: accepted, or refused with one line.
#include "pxgw/ctl/config.h"
#include "tests/fuzz/input.h"

using namespace test;

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const pxgw::Config c = pxgw::parse_config(text, "fuzz.yaml");
    fuzz_check(!c.pairs.empty(), "accepted without ports");
    for (const auto& p : c.pairs) fuzz_check(p.inside.mtu > p.outside.mtu, "inside MTU not above outside");
  } catch (const pxgw::ConfigError& e) {
    const std::string what = e.what();
    fuzz_check(!what.empty() && what.find('\n') == std::string::npos, "not one line: " + what);
  }
  return 0;
}
