// Depth-first search for a plan below a capacity. At each node it takes a niche, a section whose lowest items may be
// placed next, and tries each of those there, then none of them. Every plan whose blocks all rest on something is found
// in one way.
#pragma once

#include <functional>
#include <span>

#include "compiler/memory/search/skyline.h"

namespace l2l::compiler::memory {

// Which niche is taken.
enum class Niche {
  kTightest,  // fewest choices, then least slack
  kLowest,    // lowest floor, then fewest choices
  kWeighted,  // fewest choices for its blame
  kBlamed,    // fewest choices, then most blame
};

enum class Outcome { kFound, kNone, kStopped };

struct SkylineLimits {
  std::uint64_t nodes, steps;
};

// Thread-bound.
class SkylineSearch {
 public:
  // `rank`: per item, the smaller is tried first. `stop` is asked at each node. All stay alive.
  SkylineSearch(Skyline& skyline, std::span<const std::uint32_t> rank, Niche niche, SkylineLimits limits,
                const std::function<bool()>& stop);

  // From an empty skyline, once. Found: skyline.lowest() are the places. None: no plan fits below the capacity.
  Outcome run();
  std::uint64_t steps() const { return skyline_.steps() + sections_seen_; }

 private:
  struct Sections {
    Index begin, end;
  };

  bool solve(Sections part);
  bool solve_parts(Sections whole);
  Index choose(Sections part) const;
  double key(Index section) const;
  bool is_niche(Index section) const;
  bool limit_reached();

  Skyline& skyline_;
  const SearchGraph& graph_;
  std::span<const std::uint32_t> rank_;
  const Niche niche_;
  const SkylineLimits limits_;
  const std::function<bool()>& stop_;
  std::uint64_t nodes_ = 0, sections_seen_ = 0;
  bool stopped_ = false;
};

}  // namespace l2l::compiler::memory
