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
  const bool found = skyline_.start() && solve({0, static_cast<Index>(graph_.sections.count())});
  return found ? Outcome::kFound : stopped_ ? Outcome::kStopped : Outcome::kNone;
}

bool SkylineSearch::limit_reached() {
  if (++nodes_ > limits_.nodes || steps() > limits_.steps || stop_()) stopped_ = true;
  return stopped_;
}

// Depth first. The path of decisions grows with every item that is placed, so it is kept here: tens of thousands of
// recursive calls would overflow the stack of a thread.
bool SkylineSearch::solve(Sections whole) {
  std::vector<Node> path{{skyline_.mark(), whole, {}, 0, whole}};  // begins with a choice that is already made
  while (!path.empty()) {
    Sections& left = path.back().left;
    if (left.begin == left.end) {
      path.pop_back();  // solved
      continue;
    }
    const Sections part = take_part(left);
    sections_seen_ += kStepsPerNode + part.end - part.begin;
    const Index section = choose_section(part);
    if (section == kNoSection) continue;
    if (limit_reached()) return false;
    path.push_back(node_of(part, section));
    while (!choose(path.back())) {
      path.pop_back();
      if (path.size() == 1) return false;
    }
  }
  return true;
}

// Parts that share no unplaced item are independent: a failure in one cannot be repaired in another.
SkylineSearch::Sections SkylineSearch::take_part(Sections& left) const {
  Sections part = left;
  if (graph_.in_line) {
    part.end = part.begin + 1;
    while (part.end < left.end && skyline_.crossing(part.end - 1) > 0) ++part.end;
  }
  left.begin = part.end;
  return part;
}

SkylineSearch::Node SkylineSearch::node_of(Sections part, Index section) const {
  Node node{skyline_.mark(), part, {}};
  for (const Index item : skyline_.left(section)) {
    if (skyline_.lowest(item) == skyline_.floor(section)) node.items.push_back(item);
  }
  std::sort(node.items.begin(), node.items.end(),
            [&](Index a, Index b) { return rank_[a] != rank_[b] ? rank_[a] < rank_[b] : a < b; });
  return node;
}

// Replaces the choice of a node by the next one that does not fail at once. Returns false when none is left.
bool SkylineSearch::choose(Node& node) {
  skyline_.undo(node.mark);
  node.left = node.part;
  while (node.tried < node.items.size()) {
    const Index item = node.items[node.tried++];
    if (!graph_.blocks.pinned(item) && skyline_.support(item) < skyline_.lowest(item)) continue;
    if (skyline_.place(item)) return true;
    skyline_.undo(node.mark);
  }
  const auto pinned = [&](Index item) { return graph_.blocks.pinned(item).has_value(); };
  if (node.tried++ == node.items.size() && std::none_of(node.items.begin(), node.items.end(), pinned) &&
      skyline_.exclude(node.items)) {
    return true;
  }
  skyline_.undo(node.mark);
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
