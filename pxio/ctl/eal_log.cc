// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/ctl/eal_log.h"

#include <rte_log.h>

#include <algorithm>
#include <cstdlib>

namespace pxio {

EalLog::EalLog() : previous_(rte_log_get_stream()), file_(open_memstream(&text_, &size_)) {
  // A stream of our own also keeps EAL from writing to syslog.
  if (file_ != nullptr) rte_openlog_stream(file_);
}

EalLog::~EalLog() {
  rte_openlog_stream(previous_);
  if (file_ != nullptr) std::fclose(file_);
  std::free(text_);
}

std::string EalLog::reason() {
  if (file_ == nullptr) return {};
  std::fflush(file_);
  const std::string log(text_, size_);
  std::string best;
  for (size_t at = 0; at < log.size();) {
    const size_t end = std::min(log.find('\n', at), log.size());
    std::string line = log.substr(at, end - at);
    at = end + 1;
    // "EAL: ..." or "function(): ..."
    if (const size_t colon = line.find(": "); colon != std::string::npos && line.find(' ') == colon + 1)
      line.erase(0, colon + 2);
    // These only repeat that it failed.
    const auto starts = [&](const char* with) { return line.rfind(with, 0) == 0; };
    if (line.empty() || starts("FATAL") || starts("Invalid 'command line'") ||
        starts("Driver cannot attach") || starts("Failed to attach device"))
      continue;
    best = line;
  }
  return best;
}

}  // namespace pxio
