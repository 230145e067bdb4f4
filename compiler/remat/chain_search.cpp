#include "compiler/remat/chain_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "compiler/remat/chain.h"

namespace l2l::compiler::remat {
namespace {

constexpr double kRounding = 1e-14;  // of sums of doubles, relative to their terms

// The number of multisets of up to k of `options`.
double multisets(std::size_t options, std::size_t k) {
  double count = 1;
  for (std::size_t i = 1; i <= k && count < 1e18; ++i)
    count *= static_cast<double>(options + i) / static_cast<double>(i);
  return count;
}

std::size_t deviations_of(std::size_t options, std::size_t layers, std::size_t most) {
  if (multisets(options, layers) <= static_cast<double>(kEveryChoice)) return layers;
  std::size_t k = 0;
  while (k < layers && multisets(options, k + 1) <= static_cast<double>(most)) ++k;
  return k;
}

std::size_t options_of(const Loads& types) {
  std::size_t options = 0;
  for (const auto& type : types) options += type.size();
  return options;
}

Load& operator+=(Load& sum, const Load& load) {
  sum.time += load.time;
  sum.device += load.device;
  sum.host += load.host;
  return sum;
}

Load times(std::size_t n, const Load& load) {
  const auto count = static_cast<std::int64_t>(n);
  return {count * load.time, count * load.device, count * load.host};
}

}  // namespace

ChainSearch::ChainSearch(SearchProblem problem, std::size_t most_deviations)
    : problem_(std::move(problem)),
      facets_(find_facets(problem_.types)),
      all_layers_(std::accumulate(problem_.layers.begin(), problem_.layers.end(), std::size_t{0})),
      most_deviations_(deviations_of(options_of(problem_.types), all_layers_, most_deviations)) {
  for (const Facet& facet : facets_) {
    for (const Multipliers& multipliers : facet.multipliers) find_bound(multipliers);
  }
  if (!fits_at_least()) bound_ = static_cast<double>(kInfiniteTime);
}

// The Lagrangian bound: the cost of the cheapest options, less the price of the budgets. Reduced by the rounding error
// of doubles.
void ChainSearch::find_bound(const Multipliers& multipliers) {
  const double price =
      multipliers.device * static_cast<double>(problem_.device) + multipliers.host * static_cast<double>(problem_.host);
  double bound = 0;
  std::vector<double> least;
  for (std::size_t t = 0; t < problem_.types.size(); ++t) {
    least.push_back(std::numeric_limits<double>::infinity());
    for (const Load& load : problem_.types[t]) least[t] = std::min(least[t], multipliers.of(load));
    bound += static_cast<double>(problem_.layers[t]) * least[t];
  }
  bound = bound - price - kRounding * (bound + price);
  if (!least_.empty() && bound <= bound_) return;
  bound_ = bound;
  multipliers_ = multipliers;
  least_ = std::move(least);
}

// A necessary condition: device and host bytes fit when each is minimized by itself.
bool ChainSearch::fits_at_least() const {
  Load least;
  for (std::size_t t = 0; t < problem_.types.size(); ++t) {
    Load of_type = problem_.types[t].front();
    for (const Load& load : problem_.types[t]) {
      of_type.device = std::min(of_type.device, load.device);
      of_type.host = std::min(of_type.host, load.host);
    }
    least += times(problem_.layers[t], of_type);
  }
  return least.device <= problem_.device && least.host <= problem_.host;
}

// Whether no choice of that reduced cost can be faster than `best` by a whole nanosecond.
bool ChainSearch::pruned(double cost, const ChainResult& best) const {
  return bound_ + cost >= static_cast<double>(best.time) - 0.5;
}

// What a layer with this option adds to the bound.
double ChainSearch::reduced_cost(const TypeOption& option) const {
  const double cost = multipliers_.of(problem_.types[option.type][option.option]);
  return std::max(0.0, cost - least_[option.type] - kRounding * cost);
}

// What every choice on or near this facet adds to the bound.
double ChainSearch::reduced_cost(const Facet& facet) const {
  double cost = 0;
  for (std::size_t t = 0; t < problem_.types.size(); ++t) {
    if (problem_.layers[t] <= most_deviations_) continue;
    double least = reduced_cost({t, facet.base[t]});
    for (const TypeOption& option : facet.others) {
      if (option.type == t) least = std::min(least, reduced_cost(option));
    }
    cost += static_cast<double>(problem_.layers[t] - most_deviations_) * least;
  }
  return cost;
}

bool ChainSearch::improve(ChainResult& best) {
  if (pruned(0, best)) return true;
  std::vector<std::pair<double, const Facet*>> order;
  for (const Facet& facet : facets_) order.emplace_back(reduced_cost(facet), &facet);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [cost, facet] : order) {
    if (pruned(cost, best)) return false;
    if (search(*facet, best) && cost == 0) return true;
  }
  return false;
}

// Returns whether it tried all numbers of layers off the facet that are not pruned.
bool ChainSearch::search(const Facet& facet, ChainResult& best) {
  facet_ = &facet;
  on_facet_ = problem_.layers;
  deviations_.clear();
  for (std::size_t t = 0; t < problem_.types.size(); ++t) {
    for (OptionIndex o = 0; o < problem_.types[t].size(); ++o) {
      const TypeOption option{t, o};
      const bool on_facet = facet.base[t] == o || std::count(facet.others.begin(), facet.others.end(), option) > 0;
      if (!on_facet) deviations_.push_back(option);
    }
  }
  std::stable_sort(deviations_.begin(), deviations_.end(),
                   [&](const TypeOption& a, const TypeOption& b) { return reduced_cost(a) < reduced_cost(b); });
  return search_around(0, most_deviations_, reduced_cost(facet), best);
}

// Gives up to `left` more layers an option from deviations_[first] on, the cheapest first. Returns whether `left` cut
// off no choice.
bool ChainSearch::search_around(std::size_t first, std::size_t left, double cost, ChainResult& best) {
  search_facet(best);
  bool all = true;
  for (std::size_t i = first; i < deviations_.size(); ++i) {
    const double more = cost + reduced_cost(deviations_[i]);
    if (pruned(more, best)) break;
    if (on_facet_[deviations_[i].type] == 0) continue;
    if (left == 0) return false;
    off_facet_.push_back(deviations_[i]);
    --on_facet_[deviations_[i].type];
    all = search_around(i, left - 1, more, best) && all;
    ++on_facet_[deviations_[i].type];
    off_facet_.pop_back();
  }
  return all;
}

// The layers off the facet, and all others with the base option.
Load ChainSearch::base_load() const {
  Load sum;
  for (std::size_t t = 0; t < problem_.types.size(); ++t) {
    sum += times(on_facet_[t], problem_.types[t][facet_->base[t]]);
  }
  for (const TypeOption& layer : off_facet_) sum += problem_.types[layer.type][layer.option];
  return sum;
}

void ChainSearch::search_facet(ChainResult& best) const {
  const Load base = base_load();
  IntegerProgram program;
  program.device_left = problem_.device - base.device;
  program.host_left = problem_.host - base.host;
  std::int64_t most[2] = {0, 0};
  Load step[2];
  for (std::size_t m = 0; m < facet_->others.size(); ++m) {
    const TypeOption& option = facet_->others[m];
    const Load &to = problem_.types[option.type][option.option],
               &from = problem_.types[option.type][facet_->base[option.type]];
    step[m] = {to.time - from.time, to.device - from.device, to.host - from.host};
    most[m] = static_cast<std::int64_t>(on_facet_[option.type]);
  }
  const bool same_type = facet_->others.size() == 2 && facet_->others[0].type == facet_->others[1].type;
  program.time = {step[0].time, step[1].time};
  program.device = {step[0].device, step[1].device};
  program.host = {step[0].host, step[1].host};
  program.most_a = most[0];
  program.most_b = most[1];
  program.most_both = same_type ? most[0] : most[0] + most[1];
  if (const auto point = solve(program, best.time - base.time)) {
    best.time = base.time + point->time;
    count(*point, best);
  }
}

void ChainSearch::count(const IntegerPoint& point, ChainResult& best) const {
  best.layers.clear();
  for (std::size_t t = 0; t < problem_.types.size(); ++t) {
    best.layers.emplace_back(problem_.types[t].size(), 0);
    best.layers[t][facet_->base[t]] = on_facet_[t];
  }
  const std::int64_t moved[2] = {point.a, point.b};
  for (std::size_t m = 0; m < facet_->others.size(); ++m) {
    const TypeOption& option = facet_->others[m];
    best.layers[option.type][facet_->base[option.type]] -= static_cast<std::size_t>(moved[m]);
    best.layers[option.type][option.option] += static_cast<std::size_t>(moved[m]);
  }
  for (const TypeOption& layer : off_facet_) ++best.layers[layer.type][layer.option];
}

}  // namespace l2l::compiler::remat
