// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/core/evidence.h"

#include <algorithm>
#include <cmath>

namespace fpmtud {
namespace {

// A missing size counts as too large where loss explains it less often than this.
constexpr double kDoubt = 1e-4;
// So many missing probes below what a fragment claims aren't loss where nothing else was lost.
constexpr uint32_t kContradictions = 3;
// Fragments carry multiples of 8 bytes.
constexpr uint16_t kFragmentStep = 8;
constexpr uint32_t kFragmentableTries = 6;

}  // namespace

Evidence::Evidence(Family family, uint16_t top)
    : family_(family), top_(std::max(top, floor_of(family))) {}

void Evidence::add(const Tally& t) {
  const auto possible = [&](uint16_t size) { return size >= floor_of(family_) && size <= top_; };
  if (possible(t.largest_whole) && t.largest_whole > proven_) {
    proven_ = t.largest_whole;
    missing_.erase(missing_.begin(), missing_.upper_bound(proven_));
  }
  if (possible(t.largest_fragment)) fragment_ = std::max(fragment_, t.largest_fragment);
  if (possible(t.uncut)) uncut_ = std::max(uncut_, t.uncut);
  if (possible(t.cut_anyway)) cut_anyway_ = std::max(cut_anyway_, t.cut_anyway);
  // How many of them doesn't matter, and a number from elsewhere isn't to be added up.
  if (t.fragmentable != 0) fragmentable_arrived_ = 1;
}

void Evidence::limit_top(uint16_t top) {
  top_ = std::max(std::min(top, top_), floor_of(family_));
  missing_.erase(missing_.upper_bound(top_), missing_.end());
}

void Evidence::close_round(const Round& round, uint16_t whole) {
  uint32_t passing = 0;
  for (const Packet& p : round) {
    if (p.fragmentable) {
      ++fragmentable_sent_;
    } else if (p.size <= proven_) {
      ++passing;
    } else if (p.size <= top_) {
      ++missing_[p.size];
    }
  }
  sent_ += passing;
  lost_ += passing - std::min<uint32_t>(whole, passing);
}

uint16_t Evidence::next() const { return missing_.empty() ? 0 : missing_.begin()->first; }

bool Evidence::sure_of_next() const {
  if (missing_.empty()) return false;
  if (clean()) return true;
  const double loss = (lost_ + 1.0) / (sent_ + 2.0);
  return std::pow(loss, missing_.begin()->second) < kDoubt;
}

bool Evidence::fragment_agrees() const {
  return fragment_ != 0 && fragment_ + kFragmentStep > proven_ && fragment_ < next();
}

std::optional<Finding> Evidence::finding() const {
  if (proven_ == 0) return {};
  if (proven_ >= top_) return Finding{uncut_ >= top_ ? How::kBoth : How::kLadder, proven_, 0};
  if (missing_.empty()) return {};
  if (fragment_agrees()) {
    const auto limit = std::min<uint16_t>(next(), fragment_ + kFragmentStep);
    // A bound that a missing rung sets, not the fragment, may be a lost rung.
    if (next() < fragment_ + kFragmentStep && !sure_of_next()) return {};
    if (limit > proven_)
      return Finding{proven_ >= fragment_ ? How::kBoth : How::kFragment,
                     std::max(proven_, fragment_), std::max<uint16_t>(limit, proven_ + 1)};
  }
  // A lost rung below the path MTU contradicts a fragment just as a reassembler does.
  const uint16_t claimed = fragment_ != 0 ? fragment_ : uncut_;
  if (claimed >= next()) {
    uint32_t contradictions = 0;
    for (const auto& [size, n] : missing_)
      if (size <= claimed) contradictions += n;
    if (contradictions < kContradictions) return {};
  }
  // Fragments get lost more often than whole probes.
  if (family_ == Family::kIpv4 && !clean() && fragmentable_arrived_ == 0 &&
      fragmentable_sent_ > 0 && fragmentable_sent_ < kFragmentableTries)
    return {};
  if (!sure_of_next()) return {};
  return Finding{How::kLadder, proven_, next()};
}

Finding Evidence::at_least() const {
  if (proven_ == 0) return {};
  return {How::kLadder, proven_, proven_ >= top_ ? uint16_t{0} : next()};
}

uint16_t Evidence::notes() const {
  uint16_t n = 0;
  if (proven_ != 0 && proven_ < top_) {
    if (fragmentable_sent_ >= 2 && fragmentable_arrived_ == 0) n |= kFragmentsFiltered;
    const uint16_t claimed = std::max(fragment_, uncut_);
    if (next() != 0 && claimed >= next()) n |= kReassembler;
  }
  if (cut_anyway_ != 0) n |= kDfCleared;
  if (lost_ != 0) n |= kLoss;
  return n;
}

}  // namespace fpmtud
