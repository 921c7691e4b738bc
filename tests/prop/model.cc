// SPDX-License-Identifier: BSD-3-Clause
#include "tests/prop/model.h"

#include <algorithm>

namespace test {
namespace {

constexpr unsigned kReserved = 0xe00;

// Ethernet header and IP packet; padding behind it may have been taken off.
bool identical(const Decoded& a, const Decoded& b) {
  const size_t n = a.l2_len + a.ip_len;
  return n == b.l2_len + b.ip_len && b.frame.size() <= a.frame.size() &&
         std::equal(a.frame.begin(), a.frame.begin() + static_cast<long>(n), b.frame.begin());
}

// But for the IP ID and the checksum over it.
bool identical_but_id(const Decoded& a, Decoded b) {
  if (a.version != 4 || b.version != 4 || !b.ip_ok || b.frame.size() < b.l2_len + 20) return identical(a, b);
  for (size_t i : {4u, 5u, 10u, 11u}) b.frame[b.l2_len + i] = a.frame[a.l2_len + i];
  return identical(a, b);
}

bool same_l2_l3(const Decoded& a, const Decoded& b) {
  return a.dst_mac == b.dst_mac && a.src_mac == b.src_mac && a.tags == b.tags &&
         a.version == b.version && a.tos == b.tos && a.ttl == b.ttl && a.df == b.df &&
         a.reserved == b.reserved && a.flow_label == b.flow_label && a.src == b.src &&
         a.dst == b.dst && a.l3_len == b.l3_len && a.proto == b.proto;
}

bool same_ports(const Decoded& a, const Decoded& b) {
  return a.sport == b.sport && a.dport == b.dport;
}

bool has_option(const Decoded& d, uint8_t kind) {
  for (size_t i = 0; i < d.options.size();) {
    if (d.options[i] == 0) return false;
    if (d.options[i] == 1) {
      ++i;
      continue;
    }
    if (d.options[i] == kind) return true;
    if (i + 1 >= d.options.size() || d.options[i + 1] < 2) return false;
    i += d.options[i + 1];
  }
  return false;
}

bool before(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

// Why `b` mustn't follow `a` in a merge that began with `first`; empty: it may.
std::string mustnt_join(const Input& first, const Input& a, const Input& b) {
  const Decoded &f = first.d, &x = a.d, &y = b.d;
  if (!f.tcp || !y.tcp) return "not TCP";
  if (x.payload.empty() || y.payload.empty()) return "a pure ACK";
  if (a.known_bad || b.known_bad) return "known as damaged";
  if (y.seq != x.seq_end()) return "not contiguous";
  if ((x.flags & (PSH | FIN)) != 0) return "PSH or FIN before the last";
  if (((x.flags | y.flags) & (SYN | RST | URG | kReserved)) != 0) return "flags that pass alone";
  if ((x.flags & y.flags & ACK) == 0) return "no ACK";
  if (((x.flags ^ y.flags) & (CWR | ECE | AE)) != 0) return "ECN bits differ";
  if (!same_l2_l3(f, y) || !same_ports(f, y)) return "headers differ";
  if (f.l3_len != (f.version == 4 ? 20u : 40u)) return "IP options";
  if (f.has_ts != y.has_ts || f.fixed_options() != y.fixed_options()) return "options differ";
  if (has_option(y, 30) || has_option(y, 29) || has_option(y, 19)) return "options that pass alone";
  if (before(y.ack, x.ack)) return "ack steps back";
  if (y.has_ts && (before(y.tsval, x.tsval) || before(y.tsecr, x.tsecr))) return "timestamps step back";
  return {};
}

std::string check_merged_headers(const Decoded& o, const Input& first, const Input& last, bool sums_ok) {
  const Decoded &f = first.d, &l = last.d;
  if (!same_l2_l3(o, f) || !same_ports(o, f)) return "changed headers";
  if (f.version == 4 && o.id != f.id && !first.came_merged) return "IP ID isn't the first's";
  if (o.seq != f.seq) return "sequence number isn't the first's";
  if (o.tsval != f.tsval) return "TSval isn't the first's";
  if (o.ack != l.ack || o.window != l.window || o.tsecr != l.tsecr)
    return "ack, window or TSecr aren't the last's";
  if (o.fixed_options() != f.fixed_options()) return "options changed";
  if (o.flags != (f.flags | (l.flags & (PSH | FIN)))) return "flags";
  if (!o.ip_ok || o.trailer != 0) return "IP header or trailer";
  if (o.checksum_ok != sums_ok) return sums_ok ? "good checksums became bad" : "a bad checksum became good";
  return {};
}

bool same_fragmented(const Decoded& o, const Decoded& whole) {
  return o.version == 4 && o.ip_ok && !o.df && o.id == whole.id && o.src == whole.src &&
         o.dst == whole.dst && o.proto == whole.proto && o.tos == whole.tos && o.ttl == whole.ttl &&
         o.tags == whole.tags && o.trailer == 0;
}

std::string at(size_t i, const std::string& what, const Decoded& o) {
  return "output " + std::to_string(i) + ": " + what + " " + o.text();
}

}  // namespace

std::string explain_merge(const std::vector<Input>& in, const std::vector<Decoded>& out,
                          const MergeRules& rules) {
  size_t i = 0;
  for (size_t k = 0; k < out.size(); ++k) {
    const Decoded& o = out[k];
    if (i == in.size()) return at(k, "nothing came that explains it", o);
    if (o.time < in[i].time || o.time - in[i].time > rules.hold) return at(k, "held too long", o);
    if (in[i].came_merged ? identical_but_id(in[i].d, o) : identical(in[i].d, o)) {
      if (o.tcp && o.payload.empty() && o.time != in[i].time) return at(k, "a pure ACK was held", o);
      ++i;
      continue;
    }
    const Input& first = in[i];
    if (!o.tcp || !first.d.tcp || first.d.payload.size() >= o.payload.size())
      return at(k, "isn't what came next, " + first.d.text(), o);
    Bytes payload = first.d.payload;
    bool sums_ok = first.d.checksum_ok;
    while (payload.size() < o.payload.size()) {
      if (++i == in.size()) return at(k, "has more payload than came", o);
      const std::string why = mustnt_join(first, in[i - 1], in[i]);
      if (!why.empty()) return at(k, "merged what mustn't be: " + why, o);
      payload.insert(payload.end(), in[i].d.payload.begin(), in[i].d.payload.end());
      sums_ok = sums_ok && in[i].d.checksum_ok;
    }
    if (payload != o.payload) return at(k, "payload differs", o);
    const std::string why = check_merged_headers(o, first, in[i], sums_ok);
    if (!why.empty()) return at(k, why, o);
    if (o.ip_len > rules.max_ip_len) return at(k, "larger than its receiver takes", o);
    ++i;
  }
  if (i != in.size()) return "never left: " + in[i].d.text();
  return {};
}

std::string explain_split(const std::vector<Input>& in, const std::vector<Decoded>& out,
                          const SplitRules& rules) {
  size_t k = 0;
  for (const Input& input : in) {
    const Decoded& d = input.d;
    if (k < out.size() && out[k].time == input.time && identical(d, out[k])) {
      if (out[k].ip_len > rules.mtu) return at(k, "larger than the MTU", out[k]);
      if (d.segsz != 0 && d.payload.size() > d.segsz) return at(k, "larger than its sender's segments", out[k]);
      const size_t most = rules.mss - (d.tcp ? d.options.size() : 0);
      const bool splittable = d.tcp && d.checksum_ok && (d.flags & (SYN | RST | URG)) == 0 &&
                              d.l3_len == (d.version == 4 ? 20u : 40u) && !has_option(d, 29);
      if (splittable && d.payload.size() > most) return at(k, "larger than the receiver's MSS", out[k]);
      ++k;
      continue;
    }
    const bool alone = !d.tcp || (d.flags & (SYN | RST | URG)) != 0 || has_option(d, 29) ||
                       d.l3_len != (d.version == 4 ? 20u : 40u);
    if (d.ip_len > rules.mtu && alone && d.version == 4 && !d.df) {  // fragmented
      Bytes l4;
      for (; k < out.size() && l4.size() < d.l4.size(); ++k) {
        const Decoded& o = out[k];
        if (!same_fragmented(o, d) || o.ip_len > rules.mtu || o.frag_offset * 8u != l4.size())
          return at(k, "is no fragment of " + d.text(), o);
        l4.insert(l4.end(), o.l4.begin(), o.l4.end());
      }
      if (l4 != d.l4) return "never left whole in fragments: " + d.text();
      continue;
    }
    if (d.ip_len > rules.mtu && (alone || !d.checksum_ok)) continue;  // dropped, and counted as such
    if (alone || d.payload.empty()) return "never left: " + d.text();
    size_t done = 0, piece = 0, n = 0;
    while (done < d.payload.size()) {
      if (k == out.size()) return "never left whole: " + d.text();
      const Decoded& o = out[k];
      if (!o.tcp || o.payload.empty()) return at(k, "is no piece of " + d.text(), o);
      if (n == 0) piece = o.payload.size();
      const size_t len = std::min(piece, d.payload.size() - done);
      const bool last = done + len == d.payload.size();
      unsigned flags = d.flags;
      if (!last) flags &= ~unsigned{PSH | FIN};
      if (n != 0 && !rules.cwr_everywhere) flags &= ~unsigned{CWR};
      if (o.time != input.time) return at(k, "a piece was held", o);
      if (o.payload.size() != len || o.seq != static_cast<uint32_t>(d.seq + done) ||
          !std::equal(o.payload.begin(), o.payload.end(), d.payload.begin() + static_cast<long>(done)))
        return at(k, "a piece doesn't tile " + d.text(), o);
      if (!same_l2_l3(o, d) || !same_ports(o, d) || o.options != d.options || o.ack != d.ack ||
          o.window != d.window || o.urgent != 0)
        return at(k, "a piece's headers differ from " + d.text(), o);
      if (o.flags != flags) return at(k, "a piece's flags, of " + d.text(), o);
      if (o.version == 4 && o.id != static_cast<uint16_t>(d.id + n)) return at(k, "a piece's IP ID", o);
      if (!o.ip_ok || o.trailer != 0) return at(k, "a piece's IP header or trailer", o);
      if (!o.checksum_ok) return at(k, "a piece's checksum", o);
      if (!d.checksum_ok) return at(k, "a damaged packet was split", o);
      if (o.ip_len > rules.mtu || o.payload.size() + o.options.size() > rules.mss)
        return at(k, "a piece is too large", o);
      if (d.segsz != 0 && o.payload.size() > d.segsz) return at(k, "larger than its sender's segments", o);
      done += len;
      ++n;
      ++k;
    }
    if (n == 1) return at(k - 1, "changed without need", out[k - 1]);
  }
  if (k != out.size()) return at(k, "nothing came that explains it", out[k]);
  return {};
}

}  // namespace test
