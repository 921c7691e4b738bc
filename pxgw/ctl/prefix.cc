// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

#include "pxgw/ctl/config.h"

namespace pxgw {

std::string to_string(const Prefix& p) {
  char text[INET6_ADDRSTRLEN];
  inet_ntop(p.version == 4 ? AF_INET : AF_INET6, p.addr.data(), text, sizeof text);
  return fmt::format("{}/{}", text, p.bits);
}

Prefix parse_prefix(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string addr(text.substr(0, slash));
  Prefix p;
  unsigned max_bits = 32;
  if (inet_pton(AF_INET, addr.c_str(), p.addr.data()) != 1) {
    p.addr = {};
    if (inet_pton(AF_INET6, addr.c_str(), p.addr.data()) != 1)
      throw std::invalid_argument(
          fmt::format("'{}' is not a prefix; write it as 192.0.2.0/24 or 2001:db8::/32", text));
    p.version = 6;
    max_bits = 128;
  }
  p.bits = static_cast<uint8_t>(max_bits);
  if (slash != std::string_view::npos) {
    const std::string_view len = text.substr(slash + 1);
    unsigned bits = 0;
    const auto [end, error] = std::from_chars(len.data(), len.data() + len.size(), bits);
    if (error != std::errc() || end != len.data() + len.size() || bits > max_bits)
      throw std::invalid_argument(
          fmt::format("'{}' has no prefix length between 0 and {}; write it as {}/{}", text,
                      max_bits, addr, max_bits == 32 ? 24 : 64));
    p.bits = static_cast<uint8_t>(bits);
  }
  Prefix clean = p;
  for (unsigned bit = p.bits; bit < max_bits; ++bit)
    clean.addr[bit / 8] = static_cast<uint8_t>(clean.addr[bit / 8] & ~(0x80u >> bit % 8));
  if (clean != p)
    throw std::invalid_argument(fmt::format(
        "'{}' has bits set behind its prefix length; write {} for the network or {} for the host",
        text, to_string(clean), addr));
  return p;
}

bool covers(const Prefix& a, const Prefix& b) {
  return a.version == b.version && a.bits <= b.bits && a.contains(b.addr.data());
}

}  // namespace pxgw
