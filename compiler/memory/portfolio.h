// All solvers together, until one reaches the lower bound or a limit is met.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "compiler/memory/bounds.h"

namespace l2l::compiler::memory {

enum class Solver { portfolio, greedy, exact, local };

struct PortfolioOptions {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::uint64_t steps = 5'000'000;    // of the searches (search.h): a limit that does not depend on the clock
  Solver solver = Solver::portfolio;  // or a single one: greedy orders alone, or a search from a first plan
  std::uint64_t seed = 1;
  int threads = 1;
};

struct Solution {
  Plan plan = {};
  Bound bound = {};
  std::string solver = {};  // that found the plan
  bool complete = false;    // the plan is optimal: it meets the bound, or a search was exhaustive
  struct Step {
    double seconds = 0;  // since the call
    Bytes footprint = 0;
    std::string solver;
  };
  std::vector<Step> curve = {};  // every improvement
};

// Throws what check() throws. Unless the deadline cuts it short, the plan depends on problem, solver, steps and seed
// only, not on threads or time. The local search needs no interference graph on one stream without groups and pinned
// tensors; other problems with more than kMostInterferences pairs are planned by plan_by_sweep() alone.
Solution solve(const Problem& problem, const PortfolioOptions& options);
inline constexpr std::uint64_t kMostInterferences = 100'000'000;  // pairs; 800 MB

}  // namespace l2l::compiler::memory
