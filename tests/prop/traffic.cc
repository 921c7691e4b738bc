// SPDX-License-Identifier: BSD-3-Clause
#include "tests/prop/traffic.h"

#include <algorithm>
#include <ostream>

namespace test {
namespace {

using pxio::Direction;

// Deals out the bits of one number, then those of its successors.
class Dice {
 public:
  explicit Dice(uint32_t seed) : x_(seed) {}
  uint32_t below(uint32_t n) {
    x_ ^= x_ << 13;
    x_ ^= x_ >> 17;
    x_ ^= x_ << 5;
    x_ += 0x9e3779b9u;
    return static_cast<uint32_t>(uint64_t{x_ * 0x2c1b3c6du} * n >> 32);
  }
  bool one_in(uint32_t n) { return below(n) == 0; }

 private:
  uint32_t x_;
};

struct Side {
  uint32_t next = 0;       // offset behind the highest byte sent
  uint32_t hole = 0, hole_len = 0;
  uint32_t acked = 0;      // of the other side's bytes
  uint32_t tsval = 1000, tsecr = 500;
  uint8_t tos = 2, ttl = 60;
  uint16_t ece = 0, id = 0;
};

struct State {
  Side side[2];  // by direction
};

Bytes sack_option(uint32_t x) {
  return {1, 1, 5, 10, 0, 0, 0, 1, 0, 0, static_cast<uint8_t>(x >> 1), static_cast<uint8_t>(x & 1)};
}

Tcp segment(const Flow& flow, State& st, Direction d, uint32_t offset, size_t len, Dice& dice) {
  Side& s = st.side[pxio::index(d)];
  const Side& other = st.side[pxio::index(pxio::reverse(d))];
  Tcp t = d == Direction::kInbound ? flow.in(offset, len) : flow.out(offset, len);
  if (dice.one_in(4)) s.acked = other.next;
  if (dice.one_in(40)) s.acked -= std::min(s.acked, 1000u);
  t.ack(t.ack_no + s.acked).id(s.id++).tos(s.tos).ttl(s.ttl).window(static_cast<uint16_t>(dice.below(60000)));
  if (dice.one_in(30)) s.tos = s.tos == 2 ? 3 : 2;
  if (dice.one_in(60)) s.ttl ^= 1;
  if (dice.one_in(40)) s.ece = static_cast<uint16_t>(dice.below(8) << 6);
  t.add_flags(s.ece);
  if (flow.shape.timestamps) {
    if (dice.one_in(6)) s.tsval += dice.below(3);
    if (dice.one_in(12)) s.tsecr += dice.below(3);
    if (dice.one_in(80)) s.tsval -= 1;
    t.opts.clear();
    t.ts(s.tsval, s.tsecr);
  }
  return t;
}

void decorate(Tcp& t, Dice& dice) {
  if (dice.one_in(8)) t.add_flags(PSH);
  if (dice.one_in(25)) {
    const Bytes o = sack_option(dice.below(4));
    t.opts.insert(t.opts.end(), o.begin(), o.end());
  }
  if (dice.one_in(60)) t.option({30, 4, 0x20, 1});
  if (dice.one_in(60)) t.df(false);
  if (dice.one_in(60)) t.lower.flow_label ^= 5;
  if (dice.one_in(50)) t.damage(0x0100);
  if (dice.one_in(70)) t.add_flags(FIN);
  if (dice.one_in(90)) t.add_flags(RST);
  if (dice.one_in(90)) t.add_flags(URG).urg(1);
  if (dice.one_in(120)) t.flag_bits = static_cast<uint16_t>(t.flag_bits & ~ACK);
  if (dice.one_in(120)) t.add_flags(0x400);
  if (dice.one_in(120)) t.option({29, 4, 1, 1});
  if (dice.one_in(100)) {
    t.lower.ip_options = {1, 1, 1, 1};
    t.lower.extensions = {{60, Bytes(8)}};
  }
  if (dice.one_in(20)) t.pad_to(20 + dice.below(200));
  if (dice.one_in(4)) {
    std::vector<uint32_t> cuts;
    for (uint32_t n = 1 + dice.below(4); n != 0; --n)
      cuts.push_back(1 + dice.below(dice.one_in(2) ? 130 : 9000));
    t.cut(cuts);
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Step& s) {
  return os << "{" << s.flow << ", " << s.kind << ", " << s.dice << "u}";
}

std::vector<Peer> make_peers() {
  const Shape shapes[kFlows] = {{4, 0, true}, {6, 1, true}, {4, 2, false}, {6, 0, false}, {4, 0, true}, {6, 0, true}};
  std::vector<Peer> r;
  for (uint16_t i = 0; i < kFlows; ++i) {
    Flow f(shapes[i], i);
    f.opener = i % 2 != 0 ? Opener::kOutside : Opener::kInside;
    f.outside_isn = 0xffffffffu - 30000u * i;
    f.inside_isn = 0xffffffffu - 50000u * i;
    Peer p{f, true, 9000, 1500, size_t{f.v4() ? 1460u : 1440u}, false};
    if (i == 0) {  // classic ECN
      p.flow.syn_flags = CWR | ECE;
      p.flow.syn_ack_flags = ECE;
    }
    if (i == 1) {  // AccECN
      p.flow.syn_flags = AE | CWR | ECE;
      p.flow.syn_ack_flags = CWR;
      p.cwr_everywhere = true;
    }
    if (i == 2) p.flow.outside_mss = 536, p.split_mss = 536;
    if (i == 3) p.flow.inside_mss = 4000, p.merge_max = 4060;
    if (i == 4) p.flow.inside_mss = 1460, p.merge_max = 0;
    if (i == 5) {  // its handshake isn't seen
      p.opened = false;
      p.merge_max = 0;
      p.cwr_everywhere = true;
    }
    r.push_back(p);
  }
  return r;
}

std::vector<Sent> make_traffic(const std::vector<Peer>& peers, const std::vector<Step>& steps) {
  std::vector<State> states(peers.size());
  std::vector<Sent> r;
  for (const Step& step : steps) {
    Dice dice(step.dice);
    const auto n = static_cast<size_t>(step.flow);
    const Flow& flow = peers[n].flow;
    State& st = states[n];
    const Direction d = step.kind < 65 ? Direction::kInbound : Direction::kOutbound;
    Side& s = st.side[pxio::index(d)];
    static constexpr int kWaits[] = {0, 0, 0, 0, 0, 0, 0, 1, 5, 20, 49, 50, 51, 70, 1000};
    Sent sent{d, step.flow, {}, std::chrono::microseconds(kWaits[dice.below(15)]), dice.one_in(3)};
    const auto emit = [&](const Tcp& t, bool known_bad = false) {
      sent.frame = t.build();
      if (known_bad) sent.frame.ol_flags = RTE_MBUF_F_RX_L4_CKSUM_BAD;
      r.push_back(sent);
      sent.wait = pxio::Nanos(0);
      sent.new_burst = false;
    };
    const auto fresh = [&](size_t len) {
      Tcp t = segment(flow, st, d, s.next, len, dice);
      s.next += static_cast<uint32_t>(len);
      return t;
    };
    // What a NIC or kernel has merged already.
    const auto emit_merged = [&](uint32_t segs, uint32_t last) {
      const auto len = (segs - 1) * flow.full() + last;
      Tcp whole = segment(flow, st, d, s.next, len, dice);
      whole.flag_bits = static_cast<uint16_t>(whole.flag_bits & ~CWR);  // ends a merge
      if (dice.one_in(3)) whole.add_flags(PSH);
      std::vector<uint32_t> cuts;
      for (uint32_t at = 0, k = 0; k < segs; ++k, at += flow.full()) {
        Tcp part = whole;
        part.seq(whole.seq_no + at).data(k + 1 < segs ? flow.full() : last);
        if (k + 1 < segs) part.flag_bits = static_cast<uint16_t>(part.flag_bits & ~PSH);
        sent.parts.push_back(part);
        cuts.push_back(100 + at);
      }
      s.next += len;
      emit(whole.cut(cuts).rx(RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD, flow.full()));
      sent.parts.clear();
    };
    const auto pick = [&](uint32_t a, uint32_t b) { return a + dice.below(b - a); };
    switch (step.kind / 5) {
      case 0: case 1: case 2: case 3:  // a train of full segments
        for (uint32_t k = pick(1, 9); k != 0; --k) emit(fresh(flow.full()));
        break;
      case 4: case 5: {  // one segment of any length and kind
        Tcp t = fresh(pick(1, dice.one_in(3) ? 20 : flow.full() - 12u));
        decorate(t, dice);
        emit(t, (t.build().bytes.size() & 63) == 0);
        break;
      }
      case 6: {  // full, of any kind; or come merged
        if (dice.one_in(2)) {
          emit_merged(pick(2, 20), pick(1, flow.full()));
          break;
        }
        Tcp t = fresh(flow.full() - 40u);
        decorate(t, dice);
        emit(t);
        break;
      }
      case 7:  // something is lost, or comes later
        s.hole = s.next;
        s.hole_len = pick(1, 3000);
        s.next += s.hole_len;
        break;
      case 8:
        if (s.hole_len == 0) break;
        emit(segment(flow, st, d, s.hole, std::min(s.hole_len, uint32_t{flow.full()}), dice));
        s.hole_len = 0;
        break;
      case 9: {  // sent again, with other borders
        const uint32_t back = std::min(s.next, pick(1, 6000));
        if (back != 0) emit(segment(flow, st, d, s.next - back, pick(1, flow.full()), dice));
        break;
      }
      case 10:  // the last packet twice
        if (!r.empty() && r.back().dir == d && r.back().flow == step.flow) {
          const Sent again = r.back();
          r.push_back(again);
        }
        break;
      case 11: case 12: {  // pure ACKs, a fragment now and then
        for (uint32_t k = pick(1, 4); k != 0; --k) emit(segment(flow, st, d, s.next, 0, dice));
        if (!dice.one_in(4)) break;
        Tcp t = segment(flow, st, d, s.next, 100, dice);
        t.lower.df = false;
        t.lower.mf = dice.one_in(2);
        t.lower.frag_offset = t.lower.mf ? 0 : 90;
        t.lower.extensions = {{44, {0, 0, static_cast<uint8_t>(t.lower.mf ? 0 : 2), 0, 0, 0, 0, 1}}};
        emit(t);
        break;
      }
      case 13: case 14: case 15: {  // outbound jumbos
        Tcp t = fresh(pick(flow.full(), flow.jumbo() - 30u));
        if (dice.one_in(3)) decorate(t, dice);
        emit(t);
        break;
      }
      case 16: {
        if (dice.one_in(2)) {  // come merged, of small segments, full ones or jumbos
          const uint32_t each = dice.one_in(3) ? pick(40, 400) : dice.one_in(2) ? flow.full() : pick(400, flow.jumbo());
          Tcp t = fresh(pick(each + 1, std::min(each * 45, 60'000u)));
          t.flag_bits = static_cast<uint16_t>(t.flag_bits & ~CWR);
          emit(t.cut({100, 2000, 9000, 18'000, 27'000, 36'000, 45'000, 54'000}).rx(RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD,
                                                   static_cast<uint16_t>(each)));
          break;
        }
        Tcp t = fresh(pick(1, flow.full()));
        decorate(t, dice);
        emit(t);
        break;
      }
      case 17: {
        const uint32_t back = std::min(s.next, pick(1, 20000));
        if (back != 0) emit(segment(flow, st, d, s.next - back, pick(1, flow.jumbo()), dice));
        break;
      }
      default:
        emit(segment(flow, st, d, s.next, 0, dice));
        break;
    }
  }
  return r;
}

}  // namespace test
