#include "compiler/memory/search/skyline_search.h"

#include <algorithm>
#include <limits>

namespace l2l::compiler::memory {
namespace {

constexpr Index kNoSection = ~Index{0};
constexpr std::uint64_t kStepsPerNode = 50;

}  // namespace

SkylineSearch::SkylineSearch(Skyline& skyline, std::span<const double> rank, BranchingRule rule, SkylineLimits limits,
                             const std::function<bool()>& stop)
    : skyline_(skyline), graph_(skyline.graph()), rank_(rank), rule_(rule), limits_(limits), stop_(stop) {}

Outcome SkylineSearch::run() {
  const bool found = skyline_.start() && solve_parts({0, static_cast<Index>(graph_.sections.count())});
  return found ? Outcome::kFound : stopped_ ? Outcome::kStopped : Outcome::kNone;
}

bool SkylineSearch::limit_reached() {
  if (++nodes_ > limits_.nodes || steps() > limits_.steps || stop_()) stopped_ = true;
  return stopped_;
}

// Parts that share no unplaced item are independent: a failure in one cannot be repaired in another.
bool SkylineSearch::solve_parts(Sections whole) {
  if (!graph_.in_line) return solve(whole);
  const Skyline::Mark mark = skyline_.mark();
  Index begin = whole.begin;
  for (Index section = whole.begin; section < whole.end; ++section) {
    if (section + 1 < whole.end && skyline_.crossing(section) > 0) continue;
    if (!solve({begin, section + 1})) {
      skyline_.undo(mark);
      return false;
    }
    begin = section + 1;
  }
  return true;
}

bool SkylineSearch::solve(Sections part) {
  sections_seen_ += kStepsPerNode + part.end - part.begin;
  const Index section = choose_section(part);
  if (section == kNoSection) return true;
  if (limit_reached()) return false;
  const Bytes floor = skyline_.floor(section);
  std::vector<Index> items;
  for (const Index item : skyline_.left(section)) {
    if (skyline_.lowest(item) == floor) items.push_back(item);
  }
  std::sort(items.begin(), items.end(),
            [&](Index a, Index b) { return rank_[a] != rank_[b] ? rank_[a] < rank_[b] : a < b; });
  const Skyline::Mark mark = skyline_.mark();
  bool pinned = false;
  for (const Index item : items) {
    const bool is_pinned = graph_.blocks.pinned(item).has_value();
    pinned = pinned || is_pinned;
    if (!is_pinned && skyline_.support(item) < floor) continue;
    if (skyline_.place(item) && solve_parts(part)) return true;
    skyline_.undo(mark);
    if (stopped_) return false;
  }
  if (!pinned && skyline_.exclude(items) && solve(part)) return true;
  skyline_.undo(mark);
  return false;
}

Index SkylineSearch::choose_section(Sections part) const {
  Bytes lowest = Skyline::kNever;
  for (Index section = part.begin; section < part.end; ++section) lowest = std::min(lowest, skyline_.floor(section));
  Index best = kNoSection;
  double best_key = std::numeric_limits<double>::infinity();
  for (Index section = part.begin; section < part.end; ++section) {
    if (skyline_.at_floor(section) == 0) continue;
    const bool is_lowest = skyline_.floor(section) == lowest;
    if (rule_ == BranchingRule::kLowest && !is_lowest) continue;
    const double its_key = key(section);
    if (its_key < best_key && (is_lowest || may_branch(section))) {
      best_key = its_key;
      best = section;
    }
  }
  return best;
}

double SkylineSearch::key(Index section) const {
  const Bytes floor = skyline_.floor(section), second = skyline_.second(section);
  const bool may_be_none = second != Skyline::kNever ? second - floor <= skyline_.slack(section)
                                                     : skyline_.at_floor(section) > 1 && skyline_.slack(section) > 0;
  const double choices = static_cast<double>(skyline_.at_floor(section)) + may_be_none;
  switch (rule_) {
    case BranchingRule::kTightest:
      return choices * 1e18 + static_cast<double>(skyline_.slack(section));
    case BranchingRule::kLowest:
      return choices;
    case BranchingRule::kWeighted:
      return choices / skyline_.conflict_weights()[section];
    case BranchingRule::kHeaviest:
      return choices * 1e12 - skyline_.conflict_weights()[section];
  }
  return choices;
}

bool SkylineSearch::may_branch(Index section) const {
  for (const Index item : skyline_.left(section)) {
    if (skyline_.lowest(item) == skyline_.floor(section) && !skyline_.is_lowest_of_neighbours(item)) return false;
  }
  return true;
}

}  // namespace l2l::compiler::memory
