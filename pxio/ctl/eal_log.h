// SPDX-License-Identifier: BSD-3-Clause
// Keeps what DPDK logs while in scope off the terminal, so that it can become part of one clear error.
// Main thread.
#pragma once
#include <cstdio>
#include <string>

namespace pxio {

class EalLog {
 public:
  EalLog();
  ~EalLog();
  EalLog(const EalLog&) = delete;
  EalLog& operator=(const EalLog&) = delete;
  // The last line that says something, without its prefix; empty where nothing was logged.
  std::string reason();

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  FILE* previous_;
  FILE* file_;
};

}  // namespace pxio
