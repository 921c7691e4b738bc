// SPDX-License-Identifier: BSD-3-Clause
// Lines with a time stamp on stderr, at most some a second. Control thread.
#pragma once
#include <fmt/format.h>

#include <string_view>

namespace pxgw {

enum class Level { kInfo, kWarning, kError };

void log_line(Level level, std::string_view text);

template <typename... Args>
void log(Level level, fmt::format_string<Args...> f, Args&&... args) {
  log_line(level, fmt::format(f, std::forward<Args>(args)...));
}

}  // namespace pxgw
