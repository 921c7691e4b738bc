// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/eal.h"

#include <exception>
#include <memory>
#include <stdexcept>

namespace test {
namespace {

std::unique_ptr<pxio::BufferPools>& the_pools() {
  // Never destroyed: EAL goes away first at exit.
  static auto* p = new std::unique_ptr<pxio::BufferPools>;
  return *p;
}

}  // namespace

void start_dpdk() {
  if (the_pools() != nullptr) return;
  pxio::EalOptions options;
  options.pages = pxio::EalOptions::Pages::kNone;
  options.memory_mb = 256;
  pxio::start_eal(options);
  the_pools() = std::make_unique<pxio::BufferPools>(16384, 2048);
}

pxio::BufferPools& pools() { return *the_pools(); }

NoLeak::NoLeak() : exceptions_(std::uncaught_exceptions()) {
  if (pools().in_use() != 0) throw std::logic_error("buffers were missing before this test");
}

NoLeak::~NoLeak() noexcept(false) {
  const uint32_t n = pools().in_use();
  if (n != 0 && std::uncaught_exceptions() == exceptions_)
    throw std::logic_error(std::to_string(n) + " buffers didn't come back");
}

}  // namespace test
