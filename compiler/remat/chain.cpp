#include "compiler/remat/chain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "compiler/remat/chain_search.h"
#include "core/checked.h"

namespace l2l::compiler::remat {
namespace {
void check_sum(const std::vector<LayerType>& types, const char* what,
               const std::function<std::uint64_t(const LayerType&, const LayerOption&)>& get) {
  std::uint64_t all = 0;
  for (const LayerType& type : types) {
    std::uint64_t most = 0;
    for (const LayerOption& option : type.options) most = std::max(most, get(type, option));
    all = checked_add(all, checked_multiply(most, type.layers, what), what);
  }
  if (all >= static_cast<std::uint64_t>(kInfiniteTime)) {
    throw BadInput(std::string(what) + " of all layers: " + std::to_string(all) + " is 2^52 or more");
  }
}

void check(const std::vector<LayerType>& types) {
  for (std::size_t t = 0; t < types.size(); ++t) {
    if (types[t].layers > 0 && types[t].options.empty()) {
      throw BadInput("recompute: layers of type " + std::to_string(t) + " have no option");
    }
    for (const LayerOption& option : types[t].options) {
      const Nanoseconds times[] = {option.forward,
                                   option.backward,
                                   option.kept_d2h,
                                   option.kept_h2d,
                                   types[t].weights_forward_h2d,
                                   types[t].weights_backward_h2d,
                                   types[t].gradients_d2h};
      for (const Nanoseconds time : times) {
        if (time >= static_cast<Nanoseconds>(kInfiniteTime)) throw BadInput("recompute: a pass of 52 days");
      }
      if (option.arena >= static_cast<Bytes>(kInfiniteTime)) throw BadInput("recompute: an arena of 4 PiB");
    }
  }
  check_sum(types, "time", [](const LayerType& type, const LayerOption& option) { return time_of(type, option); });
  check_sum(types, "device bytes", [](const LayerType&, const LayerOption& option) { return option.device; });
  check_sum(types, "host bytes", [](const LayerType&, const LayerOption& option) { return option.host; });
}

// What remains to choose from when the arena has a given size.
struct Selection {
  Bytes arena = 0;
  std::vector<std::size_t> types = {};                 // those with layers, as the caller numbers them
  std::vector<std::vector<std::size_t>> options = {};  // per entry of `types`, as the caller numbers them
  Loads loads = {};                                    // of these options
  std::vector<std::size_t> layers = {};                // per entry of `types`
};

Load load_of(const LayerType& type, const LayerOption& option) {
  const auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  return {number(time_of(type, option)), number(option.device), number(option.host)};
}

bool as_good(const Load& a, const Load& b) { return a.time <= b.time && a.device <= b.device && a.host <= b.host; }

// Of equal options the first is kept.
bool dominated(const std::vector<Load>& loads, std::size_t o) {
  for (std::size_t other = 0; other < loads.size(); ++other) {
    if (other == o || !as_good(loads[other], loads[o])) continue;
    if (other < o || !as_good(loads[o], loads[other])) return true;
  }
  return false;
}

// Adds the options of the type that fit into the arena and are not dominated.
void add_type(Selection& selection, const LayerType& type) {
  std::vector<std::size_t> fitting;
  std::vector<Load> loads;
  for (std::size_t o = 0; o < type.options.size(); ++o) {
    if (type.options[o].arena > selection.arena) continue;
    fitting.push_back(o);
    loads.push_back(load_of(type, type.options[o]));
  }
  selection.options.emplace_back();
  selection.loads.emplace_back();
  for (std::size_t k = 0; k < loads.size(); ++k) {
    if (dominated(loads, k)) continue;
    selection.options.back().push_back(fitting[k]);
    selection.loads.back().push_back(loads[k]);
  }
  selection.layers.push_back(type.layers);
}

std::set<Bytes> arenas_of(const std::vector<LayerType>& types) {
  std::set<Bytes> arenas;
  for (const LayerType& type : types) {
    for (const LayerOption& option : type.options) {
      if (type.layers > 0) arenas.insert(option.arena);
    }
  }
  if (arenas.empty()) arenas.insert(0);  // no layers
  return arenas;
}

// For each arena of some option, ascending, unless a type has no option left.
std::vector<Selection> select_by_arena(const std::vector<LayerType>& types) {
  std::vector<Selection> all;
  for (const Bytes arena : arenas_of(types)) {
    Selection selection{arena};
    for (std::size_t t = 0; t < types.size(); ++t) {
      if (types[t].layers == 0) continue;
      selection.types.push_back(t);
      add_type(selection, types[t]);
    }
    const auto none = [](const std::vector<std::size_t>& options) { return options.empty(); };
    if (std::none_of(selection.options.begin(), selection.options.end(), none)) all.push_back(std::move(selection));
  }
  return all;
}

std::int64_t limited(Bytes bytes) { return static_cast<std::int64_t>(std::min<Bytes>(bytes, kInfiniteTime)); }

struct Candidate {
  Selection selection;
  ChainSearch search;
};

// One for each arena within the budget; the lowest bound first.
std::vector<Candidate> candidates(const std::vector<LayerType>& types, const ChainBudget& budget,
                                  std::size_t most_deviations) {
  std::vector<Candidate> all;
  for (Selection& selection : select_by_arena(types)) {
    if (selection.arena > budget.device) break;
    const Bytes device = budget.device - selection.arena;
    ChainSearch search({selection.loads, selection.layers, limited(device), limited(budget.host)}, most_deviations);
    all.push_back({std::move(selection), std::move(search)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.search.bound() < b.search.bound(); });
  return all;
}

ChainChoice explain(const std::vector<LayerType>& types, const Selection& selection, const ChainResult& result) {
  ChainChoice choice;
  for (const LayerType& type : types) choice.layers.emplace_back(type.options.size(), 0);
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    const LayerType& type = types[selection.types[i]];
    for (std::size_t k = 0; k < result.layers[i].size(); ++k) {
      const std::size_t option = selection.options[i][k], layers = result.layers[i][k];
      if (layers == 0) continue;
      choice.layers[selection.types[i]][option] = layers;
      choice.time += layers * time_of(type, type.options[option]);
      choice.device += layers * type.options[option].device;
      choice.host += layers * type.options[option].host;
      choice.arena = std::max(choice.arena, type.options[option].arena);
    }
  }
  choice.device += choice.arena;
  return choice;
}

}  // namespace

Nanoseconds time_of(const LayerType& type, const LayerOption& option) {
  const Nanoseconds weights = option.weights_stay ? 0 : type.weights_backward_h2d;
  return std::max({option.forward, type.weights_forward_h2d, option.kept_d2h}) +
         std::max({option.backward, weights + option.kept_h2d, type.gradients_d2h});
}

std::optional<ChainChoice> choose(const std::vector<LayerType>& types, const ChainBudget& budget,
                                  std::size_t most_deviations) {
  check(types);
  std::vector<Candidate> all = candidates(types, budget, most_deviations);
  ChainResult best;
  const Selection* selection = nullptr;
  bool proved = true;
  for (Candidate& candidate : all) {
    const std::int64_t before = best.time;
    proved = candidate.search.improve(best) && proved;
    if (best.time < before) selection = &candidate.selection;
  }
  if (selection == nullptr) return std::nullopt;
  ChainChoice choice = explain(types, *selection, best);
  const double bound = std::max(0.0, std::ceil(all.front().search.bound()));
  choice.bound = proved ? choice.time : std::min(choice.time, static_cast<Nanoseconds>(bound));
  return choice;
}

}  // namespace l2l::compiler::remat
