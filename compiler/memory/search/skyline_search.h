// Depth-first search for a plan below a capacity. A node branches on a section whose lowest items can be placed next:
// it tries each of those at the section's floor, then none of them. Only plans are enumerated in which every block
// rests on another one or on 0 (no plan is lost by that), each once.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/memory/search/skyline.h"

namespace l2l::compiler::memory {

// Which section a node branches on.
enum class BranchingRule {
  kTightest,  // fewest choices, then least slack
  kLowest,    // lowest floor, then fewest choices
  kWeighted,  // fewest choices per conflict weight (dom/wdeg: Boussemart et al., ECAI 2004)
  kHeaviest,  // fewest choices, then largest conflict weight
};

enum class Outcome { kFound, kNone, kStopped };

struct SkylineLimits {
  std::uint64_t nodes, steps;
};

// Thread-bound.
class SkylineSearch {
 public:
  // `rank`: per item; the smallest is tried first. stop() is called at each node. All arguments must outlive it.
  SkylineSearch(Skyline& skyline, std::span<const double> rank, BranchingRule rule, SkylineLimits limits,
                const std::function<bool()>& stop);

  // To be called once, with an empty skyline. kFound: skyline.lowest() are the offsets. kNone: no plan fits below the
  // capacity. kStopped: a limit, or stop().
  Outcome run();
  std::uint64_t steps() const { return skyline_.steps() + sections_seen_; }

 private:
  struct Sections {
    Index begin, end;
  };

  // A decision about a section of a part of the plan: which of its lowest items is placed there, or that none is.
  struct Node {
    Skyline::Mark mark;  // before the decision
    Sections part;
    std::vector<Index> items;  // to be tried, in this order; then none of them
    std::size_t tried = 0;
    Sections left = {};  // of the part, what is still to be solved under the present choice
  };

  bool solve(Sections whole);
  Sections take_part(Sections& left) const;
  Node node_of(Sections part, Index section) const;
  bool choose(Node& node);
  Index choose_section(Sections part) const;
  double key(Index section) const;
  bool may_branch(Index section) const;
  bool limit_reached();

  Skyline& skyline_;
  const SearchGraph& graph_;
  std::span<const double> rank_;
  const BranchingRule rule_;
  const SkylineLimits limits_;
  const std::function<bool()>& stop_;
  std::uint64_t nodes_ = 0, sections_seen_ = 0;
  bool stopped_ = false;
};

}  // namespace l2l::compiler::memory
