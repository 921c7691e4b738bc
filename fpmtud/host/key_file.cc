// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/host/key_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace fpmtud {

Key read_key(const std::string& path) {
  struct stat st;
  std::ifstream in(path, std::ios::binary);
  if (stat(path.c_str(), &st) != 0 || !in)
    throw std::runtime_error(
        fmt::format("{}: can't be read ({}); make a key by: (umask 077; openssl rand -hex 32 > {})",
                    path, std::strerror(errno), path));
  if (!S_ISREG(st.st_mode)) throw std::runtime_error(fmt::format("{}: is no file", path));
  if ((st.st_mode & 07) != 0)
    throw std::runtime_error(
        fmt::format("{}: everyone may read this key or write it; chmod o= {}", path, path));
  Key key(kMaxKeyBytes + 1);
  in.read(reinterpret_cast<char*>(key.data()), static_cast<std::streamsize>(key.size()));
  key.resize(static_cast<size_t>(in.gcount()));
  if (!key.empty() && key.back() == '\n') key.pop_back();
  if (key.size() < kMinKeyBytes || key.size() > kMaxKeyBytes)
    throw std::runtime_error(fmt::format("{}: a key has {} to {} bytes, this has {}", path,
                                         kMinKeyBytes, kMaxKeyBytes, key.size()));
  return key;
}

}  // namespace fpmtud
