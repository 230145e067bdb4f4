// A second solver of the chain problem: for each size of the arena, a dynamic programme over layers that keeps the
// Pareto front of device bytes, host bytes and time.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "tests/compiler/remat/random_chains.h"

namespace l2l::compiler::remat {

struct ParetoSum {
  Bytes device, host;
  Nanoseconds time;
  auto operator<=>(const ParetoSum&) const = default;
};

// The Pareto front, ascending in device bytes.
inline std::vector<ParetoSum> best_of(std::vector<ParetoSum> sums) {
  std::sort(sums.begin(), sums.end());
  std::map<Bytes, Nanoseconds> stairs;  // ascending host bytes, descending time
  std::vector<ParetoSum> kept;
  for (const ParetoSum& sum : sums) {
    auto above = stairs.upper_bound(sum.host);
    if (above != stairs.begin() && std::prev(above)->second <= sum.time) continue;
    while (above != stairs.end() && above->second >= sum.time) above = stairs.erase(above);
    stairs[sum.host] = sum.time;
    kept.push_back(sum);
  }
  return kept;
}

// Nothing if nothing fits, or if there are more than `limit` sums.
inline std::optional<Nanoseconds> best_time_by_pareto(const Types& types, const ChainBudget& budget,
                                                      std::size_t limit) {
  std::set<Bytes> arenas;
  for (const LayerType& type : types) {
    for (const LayerOption& option : type.options) arenas.insert(option.arena);
  }
  std::optional<Nanoseconds> best;
  for (const Bytes arena : arenas) {
    std::vector<ParetoSum> sums{{arena, 0, 0}};
    for (const LayerType& type : types) {
      for (std::size_t l = 0; l < type.layers; ++l) {
        std::vector<ParetoSum> next;
        for (const LayerOption& option : type.options) {
          Sums one;
          one.add(type, option, 1);
          for (const ParetoSum& sum : sums) {
            const ParetoSum more{sum.device + one.device, sum.host + one.host, sum.time + one.time};
            const bool fits = more.device <= budget.device && more.host <= budget.host;
            if (fits && option.arena <= arena) next.push_back(more);
          }
        }
        sums = best_of(std::move(next));
        if (sums.size() > limit) return std::nullopt;
      }
    }
    for (const ParetoSum& sum : sums) best = best ? std::min(*best, sum.time) : sum.time;
  }
  return best;
}

}  // namespace l2l::compiler::remat
