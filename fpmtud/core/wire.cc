// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/core/wire.h"

#include <algorithm>
#include <cassert>
#include <concepts>

namespace fpmtud {
namespace {

constexpr uint8_t kMagic[4] = {'F', 'P', 'M', 'T'};
constexpr uint8_t kVersion = 1;
constexpr size_t kMacBytes = sizeof(Mac);

// Network byte order, one field after another.
class Writer {
 public:
  explicit Writer(MutableBytes out) : at_(out.data()) {}
  template <std::unsigned_integral T>
  void put(T v) {
    for (size_t i = sizeof v; i-- > 0;) *at_++ = static_cast<uint8_t>(v >> (8 * i));
  }
  void put(Bytes b) { at_ = std::copy(b.begin(), b.end(), at_); }
  void skip(size_t n) { at_ += n; }

 private:
  uint8_t* at_;
};

class Reader {
 public:
  explicit Reader(Bytes in) : at_(in.data()) {}
  template <std::unsigned_integral T>
  T get() {
    uint64_t v = 0;
    for (size_t i = 0; i < sizeof(T); ++i) v = v << 8 | *at_++;
    return static_cast<T>(v);
  }
  void skip(size_t n) { at_ += n; }
  Head head() {
    Head h;
    skip(6);
    h.flags = get<uint8_t>();
    h.round = get<uint8_t>();
    std::copy_n(at_, h.nonce.size(), h.nonce.begin());
    skip(h.nonce.size());
    return h;
  }

 private:
  const uint8_t* at_;
};

Writer begin(MutableBytes out, Type type, const Head& head, const Key* key, size_t header) {
  assert(out.size() >= header);
  (void)header;
  std::fill(out.begin(), out.end(), uint8_t{0});
  Writer w(out);
  w.put(Bytes(kMagic));
  w.put(kVersion);
  w.put(static_cast<uint8_t>(type));
  w.put(static_cast<uint8_t>(key != nullptr ? head.flags | kSigned : head.flags & ~kSigned));
  w.put(head.round);
  w.put(Bytes(head.nonce));
  return w;
}

void sign(MutableBytes out, const Key* key, size_t header) {
  if (key == nullptr) return;
  const Mac mac = mac_of(*key, out.first(header - kMacBytes));
  std::copy(mac.begin(), mac.end(), out.begin() + static_cast<ptrdiff_t>(header - kMacBytes));
}

// The message is of that type, and signed if a key is given, and only then.
bool accepted(Bytes p, Type type, size_t header, const Key* key) {
  if (p.size() < header || type_of(p) != type) return false;
  const bool is_signed = (p[6] & kSigned) != 0;
  if (is_signed != (key != nullptr)) return false;
  if (key == nullptr) return true;
  return equal_in_constant_time(mac_of(*key, p.first(header - kMacBytes)),
                                p.subspan(header - kMacBytes, kMacBytes));
}

}  // namespace

std::optional<Type> type_of(Bytes p) {
  if (p.size() < 8 || !std::equal(std::begin(kMagic), std::end(kMagic), p.begin())) return {};
  if (p[4] != kVersion || p[5] < 1 || p[5] > 3) return {};
  return static_cast<Type>(p[5]);
}

void encode(const Probe& m, const Key* key, MutableBytes out) {
  Writer w = begin(out, Type::kProbe, m.head, key, kProbeBytes);
  w.put(m.seq);
  w.put(m.size);
  w.put(m.top);
  w.skip(2);
  w.put(m.sent);
  sign(out, key, kProbeBytes);
}

void encode(const Report& m, const Key* key, MutableBytes out) {
  Writer w = begin(out, Type::kReport, m.head, key, kReportBytes);
  w.put(m.seq);
  w.put(m.size);
  w.put(m.fragment);
  w.put(m.ttl);
  w.skip(1);
  w.put(m.sent);
  w.put(m.tally.whole);
  w.put(m.tally.largest_whole);
  w.put(m.tally.fragmentable);
  w.put(m.tally.largest_fragment);
  w.put(m.tally.uncut);
  w.put(m.tally.cut_anyway);
  w.skip(4);
  w.put(m.cookie);
  sign(out, key, kReportBytes);
}

void encode(const Request& m, const Key* key, MutableBytes out) {
  Writer w = begin(out, Type::kRequest, m.head, key, kRequestBytes);
  w.put(m.spec.low);
  w.put(m.spec.high);
  w.put(m.spec.top);
  w.put(static_cast<uint8_t>(m.spec.kind));
  w.skip(1);
  w.put(m.sent);
  w.put(m.cookie);
  sign(out, key, kRequestBytes);
}

std::optional<Probe> parse_probe(Bytes p, Family family, const Key* key, size_t whole) {
  if (!accepted(p, Type::kProbe, kProbeBytes, key)) return {};
  Reader r(p);
  Probe m;
  m.head = r.head();
  m.seq = r.get<uint16_t>();
  m.size = r.get<uint16_t>();
  m.top = r.get<uint16_t>();
  r.skip(2);
  m.sent = r.get<uint64_t>();
  if (m.size != std::max(whole, p.size()) + header_bytes(family)) return {};
  if (m.size < floor_of(family) || m.top < m.size) return {};
  return m;
}

std::optional<Report> parse_report(Bytes p, const Key* key) {
  if (p.size() != kReportBytes || !accepted(p, Type::kReport, kReportBytes, key)) return {};
  Reader r(p);
  Report m;
  m.head = r.head();
  m.seq = r.get<uint16_t>();
  m.size = r.get<uint16_t>();
  m.fragment = r.get<uint16_t>();
  m.ttl = r.get<uint8_t>();
  r.skip(1);
  m.sent = r.get<uint64_t>();
  m.tally.whole = r.get<uint16_t>();
  m.tally.largest_whole = r.get<uint16_t>();
  m.tally.fragmentable = r.get<uint16_t>();
  m.tally.largest_fragment = r.get<uint16_t>();
  m.tally.uncut = r.get<uint16_t>();
  m.tally.cut_anyway = r.get<uint16_t>();
  r.skip(4);
  m.cookie = r.get<uint64_t>();
  return m;
}

std::optional<Request> parse_request(Bytes p, const Key* key) {
  if (p.size() != kRequestBytes || !accepted(p, Type::kRequest, kRequestBytes, key)) return {};
  Reader r(p);
  Request m;
  m.head = r.head();
  m.spec.low = r.get<uint16_t>();
  m.spec.high = r.get<uint16_t>();
  m.spec.top = r.get<uint16_t>();
  const auto kind = r.get<uint8_t>();
  if (kind < 1 || kind > 4) return {};
  m.spec.kind = static_cast<RoundKind>(kind);
  r.skip(1);
  m.sent = r.get<uint64_t>();
  m.cookie = r.get<uint64_t>();
  return m;
}

}  // namespace fpmtud
