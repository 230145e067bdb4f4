// All solvers together, until one meets the bound or the time is up.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "compiler/memory/bounds.h"

namespace l2l::compiler::memory {

enum class Solver { portfolio, greedy, exact, local };

struct PortfolioOptions {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::uint64_t steps = 5'000'000;    // of searches (search.h); what must not look at the clock stops by them
  Solver solver = Solver::portfolio;  // one by itself: greedy orders, or a search from a first plan
  std::uint64_t seed = 1;
  int threads = 1;
};

struct Solution {
  Plan plan = {};
  Bound bound = {};
  std::string solver = {};  // that found the plan
  bool complete = false;    // nothing smaller exists: the bound is met, or a search saw all there is
  struct Step {
    double seconds = 0;  // since the call
    Bytes footprint = 0;
    std::string solver;
  };
  std::vector<Step> curve = {};  // every smaller footprint, when it was found
};

// Throws what check() throws. The plan depends on problem, solver, steps and seed alone, not on threads or time, unless
// the deadline cuts it: so does any that is complete. A problem with more meetings than kMostMeetings is planned by a
// sweep alone, in n log n time.
Solution solve(const Problem& problem, const PortfolioOptions& options);
inline constexpr std::uint64_t kMostMeetings = 100'000'000;  // pairs; 800 MB

}  // namespace l2l::compiler::memory
