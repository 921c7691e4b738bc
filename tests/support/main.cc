// SPDX-License-Identifier: BSD-3-Clause
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <exception>

#include "tests/support/eal.h"

int main(int argc, char** argv) {
  Catch::Session session;
  const int rc = session.applyCommandLine(argc, argv);
  if (rc != 0) return rc;
  const auto& c = session.configData();
  if (!c.listTests && !c.listTags && !c.listTestNamesOnly && !c.showHelp) {
    try {
      test::start_dpdk();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      return 2;
    }
  }
  return session.run();
}
