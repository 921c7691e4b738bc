// SPDX-License-Identifier: BSD-3-Clause
#include "bench/traffic.h"

#include <algorithm>
#include <cmath>

namespace bench {
namespace {

class Runs final : public Arrivals {
 public:
  Runs(uint32_t flows, uint32_t run) : flows_(flows), run_(run) {}
  Arrival next() override {
    const Arrival a{0, flow_, false};
    if (++n_ == run_) {
      n_ = 0;
      flow_ = flow_ + 1 == flows_ ? 0 : flow_ + 1;
    }
    return a;
  }

 private:
  uint32_t flows_, run_, flow_ = 0, n_ = 0;
};

constexpr double kWireBits = 1538 * 8;  // a full frame with preamble and gap

class Mix final : public Arrivals {
 public:
  explicit Mix(const MixOptions& o) : o_(o), rng_(o.seed), flows_(o.flows) {
    double total = 0;
    for (uint32_t f = 0; f < o.flows; ++f) {
      total += std::pow(f + 1.0, -0.9);
      cumulative_.push_back(total);
      flows_[f].gap_ps = kWireBits * 1000 / o.gbps[std::uniform_int_distribution<size_t>(0, o.gbps.size() - 1)(rng_)];
    }
    // A flow's number says nothing of its weight.
    order_.resize(o.flows);
    for (uint32_t f = 0; f < o.flows; ++f) order_[f] = f;
    std::shuffle(order_.begin(), order_.end(), rng_);
    train_gap_ps_ = 1e12 / o.pkts_per_s * kMeanTrain;
    next_train_ps_ = 0;
  }

  Arrival next() override {
    while (active_.empty() || next_train_ps_ <= active_.top().at_ps) start_train();
    Segment s = active_.top();
    active_.pop();
    State& flow = flows_[s.flow];
    Arrival a;
    a.flow = s.flow;
    a.push = --flow.message_left == 0;
    if (a.push) flow.message_left = message();
    // The line's own pace: who comes while it is busy waits.
    line_ps_ = std::max(line_ps_ + kWireBits * 1000 / o_.line_gbps, s.at_ps);
    a.at_ps = static_cast<uint64_t>(line_ps_);
    if (--flow.train_left != 0) active_.push({s.at_ps + flow.gap_ps, s.flow});
    return a;
  }

 private:
  static constexpr double kMeanTrain = 288;  // 64 ... 512, uniform
  struct State {
    double gap_ps = 0;
    uint32_t train_left = 0;
    uint32_t message_left = 0;
  };
  struct Segment {
    double at_ps;
    uint32_t flow;
    bool operator<(const Segment& o) const { return at_ps > o.at_ps; }
  };

  uint32_t message() {
    const double u = std::uniform_real_distribution<double>(1e-9, 1)(rng_);
    const double bytes = std::min(50e6, 64e3 * std::pow(u, -1 / 1.2));
    return static_cast<uint32_t>(std::ceil(bytes / 1448));
  }

  void start_train() {
    next_train_ps_ += std::exponential_distribution<double>(1 / train_gap_ps_)(rng_);
    for (int tries = 0; tries < 64; ++tries) {
      const double x = std::uniform_real_distribution<double>(0, cumulative_.back())(rng_);
      const auto k = std::lower_bound(cumulative_.begin(), cumulative_.end(), x) - cumulative_.begin();
      const uint32_t f = order_[static_cast<size_t>(k)];
      State& flow = flows_[f];
      if (flow.train_left != 0) continue;
      flow.train_left = std::uniform_int_distribution<uint32_t>(64, 512)(rng_);
      if (flow.message_left == 0) flow.message_left = message();
      active_.push({next_train_ps_, f});
      return;
    }
  }

  MixOptions o_;
  std::mt19937_64 rng_;
  std::vector<State> flows_;
  std::vector<double> cumulative_;
  std::vector<uint32_t> order_;
  std::priority_queue<Segment> active_;
  double train_gap_ps_, next_train_ps_;
  double line_ps_ = 0;
};

}  // namespace

std::unique_ptr<Arrivals> runs(uint32_t flows, uint32_t run) { return std::make_unique<Runs>(flows, run); }
std::unique_ptr<Arrivals> mix(const MixOptions& o) { return std::make_unique<Mix>(o); }

}  // namespace bench
