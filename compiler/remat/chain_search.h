// Searches the choices of which all but a few layers lie on one facet of the convex hull (hull_facets.h).
#pragma once

#include <cstdint>

#include "compiler/remat/hull_facets.h"

namespace l2l::compiler::remat {

struct SearchProblem {
  const Loads& types;                 // each with an option
  const std::vector<double>& layers;  // per type
  double device = 0, host = 0;        // budgets in bytes
};

// Above all times and bytes; whole numbers up to here are exact in doubles.
inline constexpr double kInfiniteLoad = std::uint64_t{1} << 52;

struct ChainResult {
  double time = kInfiniteLoad;
  std::vector<std::vector<std::size_t>> layers = {};  // [type][option]
};

// Replaces `best` by the fastest choice found, if that is faster. Returns a bound: no choice takes less time;
// kInfiniteLoad if none can fit.
double improve(const SearchProblem& problem, ChainResult& best);

}  // namespace l2l::compiler::remat
