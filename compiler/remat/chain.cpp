#include "compiler/remat/chain.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "compiler/remat/chain_search.h"
#include "core/checked.h"

namespace l2l::compiler::remat {
namespace {

// A time or size below this, times the number of layers, sums to less than kInfiniteLoad with the others of its pass.
constexpr std::uint64_t kMostInAll = std::uint64_t{1} << 50;

void check(const std::vector<LayerType>& types) {
  std::uint64_t layers = 1;
  for (const LayerType& type : types) layers = checked_add(layers, type.layers, "recompute: layers");
  for (const LayerType& type : types) {
    if (type.layers > 0 && type.options.empty()) throw BadInput("recompute: layers of a type that has no option");
    for (const LayerOption& option : type.options) {
      for (const std::uint64_t number :
           {option.forward, option.backward, option.kept_d2h, option.kept_h2d, type.weights_forward_h2d,
            type.weights_backward_h2d, type.gradients_d2h, option.device, option.host, option.arena}) {
        if (number < kMostInAll / layers) continue;
        throw BadInput("recompute: " + std::to_string(number) + " ns or bytes in each of " +
                       std::to_string(layers - 1) + " layers is too much");
      }
    }
  }
}

Load load_of(const LayerType& type, const LayerOption& option) {
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  return {number(time_of(type, option)), number(option.device), number(option.host)};
}

// The options of each type when the arena has a given size.
struct Selection {
  std::vector<std::vector<std::size_t>> options = {};  // [type]: as the caller numbers them
  Loads loads = {};
};

// Whether another option that fits into the arena is as good. Of equal options the first is kept.
bool dominated(const LayerType& type, std::size_t option, Bytes arena) {
  const auto as_good = [](const Load& a, const Load& b) {
    return a.time <= b.time && a.device <= b.device && a.host <= b.host;
  };
  const Load load = load_of(type, type.options[option]);
  for (std::size_t o = 0; o < type.options.size(); ++o) {
    if (o == option || type.options[o].arena > arena) continue;
    const Load other = load_of(type, type.options[o]);
    if (as_good(other, load) && (o < option || !as_good(load, other))) return true;
  }
  return false;
}

// Options that fit into the arena and are not dominated. Nothing if a type has none.
std::optional<Selection> select(const std::vector<LayerType>& types, Bytes arena) {
  Selection selection;
  for (const LayerType& type : types) {
    std::vector<std::size_t>& options = selection.options.emplace_back();
    std::vector<Load>& loads = selection.loads.emplace_back();
    for (std::size_t o = 0; o < type.options.size(); ++o) {
      if (type.options[o].arena > arena || dominated(type, o, arena)) continue;
      options.push_back(o);
      loads.push_back(load_of(type, type.options[o]));
    }
    if (loads.empty() && type.layers > 0) return std::nullopt;
    if (loads.empty()) loads.push_back({});
  }
  return selection;
}

ChainChoice explain(const std::vector<LayerType>& types, const Selection& selection, const ChainResult& result) {
  ChainChoice choice;
  for (std::size_t t = 0; t < types.size(); ++t) {
    std::vector<std::size_t>& chosen = choice.layers.emplace_back(types[t].options.size(), 0);
    for (std::size_t k = 0; k < selection.options[t].size(); ++k) {
      const std::size_t layers = result.layers[t][k];
      const LayerOption& option = types[t].options[selection.options[t][k]];
      if (layers == 0) continue;
      chosen[selection.options[t][k]] = layers;
      choice.time += layers * time_of(types[t], option);
      choice.device += layers * option.device;
      choice.host += layers * option.host;
      choice.arena = std::max(choice.arena, option.arena);
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

std::optional<ChainChoice> choose(const std::vector<LayerType>& types, const ChainBudget& budget) {
  check(types);
  std::set<Bytes> arenas{0};
  std::vector<double> layers;
  for (const LayerType& type : types) {
    for (const LayerOption& option : type.options) arenas.insert(option.arena);
    layers.push_back(static_cast<double>(type.layers));
  }
  const auto limited = [](Bytes bytes) { return std::min(static_cast<double>(bytes), kInfiniteLoad); };
  ChainResult best;
  Selection of_best;
  double bound = kInfiniteLoad;
  for (const Bytes arena : arenas) {
    std::optional<Selection> selection = select(types, arena);
    if (arena > budget.device || !selection) continue;
    const double before = best.time;
    bound = std::min(bound,
                     improve({selection->loads, layers, limited(budget.device - arena), limited(budget.host)}, best));
    if (best.time < before) of_best = std::move(*selection);
  }
  if (best.time == kInfiniteLoad) return std::nullopt;
  ChainChoice choice = explain(types, of_best, best);
  choice.bound = std::min(choice.time, static_cast<Nanoseconds>(std::max(0.0, std::ceil(bound))));
  return choice;
}

}  // namespace l2l::compiler::remat
