// Searches the choices of which all but a few layers lie on one facet of the convex hull (hull_facets.h).
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/remat/hull_facets.h"
#include "compiler/remat/integer_program.h"

namespace l2l::compiler::remat {

struct SearchProblem {
  Loads types = {};                      // each with an option; none dominates another
  std::vector<std::size_t> layers = {};  // per type
  std::int64_t device = 0, host = 0;     // budgets in bytes
};

// Above all times; integers up to here are exact in doubles.
inline constexpr std::int64_t kInfiniteTime = std::int64_t{1} << 52;

struct ChainResult {
  std::int64_t time = kInfiniteTime;
  std::vector<std::vector<std::size_t>> layers = {};  // [type][option]
};

// Thread-bound. Movable between calls.
class ChainSearch {
 public:
  // `most_deviations` as in choose().
  ChainSearch(SearchProblem problem, std::size_t most_deviations);

  // No choice takes less time; kInfiniteTime if none can fit.
  double bound() const { return bound_; }
  // Replaces `best` by the fastest choice found, if that is faster. Returns whether `best` is then proved optimal.
  bool improve(ChainResult& best);

 private:
  void find_bound(const Multipliers& multipliers);
  bool fits_at_least() const;
  bool pruned(double cost, const ChainResult& best) const;
  double reduced_cost(const TypeOption& option) const;
  double reduced_cost(const Facet& facet) const;
  bool search(const Facet& facet, ChainResult& best);
  bool search_around(std::size_t first, std::size_t left, double cost, ChainResult& best);
  void search_facet(ChainResult& best) const;
  Load base_load() const;
  void count(const IntegerPoint& point, ChainResult& best) const;

  SearchProblem problem_;
  std::vector<Facet> facets_;
  std::size_t all_layers_, most_deviations_;
  double bound_ = -1;
  Multipliers multipliers_ = {};    // that give the bound
  std::vector<double> least_ = {};  // per type: the cost of its cheapest option at multipliers_

  // The facet being searched.
  const Facet* facet_ = nullptr;
  std::vector<TypeOption> deviations_ = {};  // options that are not on it
  std::vector<TypeOption> off_facet_ = {};   // one entry per layer that takes one of those
  std::vector<std::size_t> on_facet_ = {};   // per type: number of the other layers
};

}  // namespace l2l::compiler::remat
