#include "compiler/remat/chain_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace l2l::compiler::remat {
namespace {

constexpr double kRounding = 1e-14;  // of sums of doubles, relative to their terms

// The number of multisets of k of `options`.
double multisets(double options, double k) {
  double count = 1;
  for (double i = 1; i <= k && count < kInfiniteLoad; ++i) count *= (options - 1 + i) / i;
  return count;
}

// How many layers may lie off a facet: any number while there are at most kEveryChoice choices in all, otherwise as
// many as give about kMostTries choices to try per facet: 4 of 24 layers with 10 options, none of thousands. More
// changes the result by a few millionths.
constexpr double kEveryChoice = 100000, kMostTries = 100000;

std::size_t deviations_of(const SearchProblem& problem) {
  double choices = 1, options = 0, layers = 0;
  for (std::size_t t = 0; t < problem.types.size(); ++t) {
    const auto of_type = static_cast<double>(problem.types[t].size());
    choices *= multisets(of_type, problem.layers[t]);
    options += of_type;
    layers += problem.layers[t];
  }
  if (choices <= kEveryChoice) return static_cast<std::size_t>(layers);
  std::size_t k = 0;
  while (layers * multisets(options + 1, static_cast<double>(k + 1)) <= kMostTries) ++k;  // + 1: on the facet
  return k;
}

// A necessary condition: device and host bytes fit when each is minimized by itself.
bool may_fit(const SearchProblem& problem) {
  Load least;
  for (std::size_t t = 0; t < problem.types.size(); ++t) {
    Load of_type = problem.types[t].front();
    for (const Load& load : problem.types[t]) {
      of_type.device = std::min(of_type.device, load.device);
      of_type.host = std::min(of_type.host, load.host);
    }
    least = least + problem.layers[t] * of_type;
  }
  return least.device <= problem.device && least.host <= problem.host;
}

// The numbers n from low to high with factor * n <= left.
struct Range {
  double low, high;

  void clip(double factor, double left) {
    if (factor > 0) high = std::min(high, std::floor(left / factor));
    if (factor < 0) low = std::max(low, std::ceil(left / factor));
    if (factor == 0 && left < 0) high = -1;
  }
};

class Search {
 public:
  Search(const SearchProblem& problem, ChainResult& best) : problem_(problem), best_(best) {}

  double run() {
    if (!may_fit(problem_)) return kInfiniteLoad;
    const std::vector<Facet> facets = find_facets(problem_.types);
    for (const Facet& facet : facets) raise_bound(facet.multipliers);
    const std::size_t deviations = deviations_of(problem_);
    for (const Facet& facet : facets) {
      if (may_improve(0)) search(facet, deviations);
    }
    return bound_;
  }

 private:
  // The Lagrangian bound: the cost of the cheapest options, less the price of the budgets. Reduced by the rounding
  // error of doubles.
  void raise_bound(const Multipliers& multipliers) {
    const double price = multipliers.device * problem_.device + multipliers.host * problem_.host;
    double bound = 0;
    std::vector<std::vector<double>> reduced(problem_.types.size());
    for (std::size_t t = 0; t < problem_.types.size(); ++t) {
      for (const Load& load : problem_.types[t]) reduced[t].push_back(multipliers.of(load));
      const double least = *std::min_element(reduced[t].begin(), reduced[t].end());
      for (double& cost : reduced[t]) cost = std::max(0.0, cost - least - kRounding * cost);
      bound += problem_.layers[t] * least;
    }
    bound = bound - price - kRounding * (bound + price);
    if (!reduced_.empty() && bound <= bound_) return;
    bound_ = bound;
    reduced_ = std::move(reduced);
  }

  double reduced_cost(const TypeOption& option) const { return reduced_[option.type][option.option]; }

  // Whether a choice of that reduced cost may be faster than the best one, by a whole nanosecond.
  bool may_improve(double cost) const { return bound_ + cost < best_.time - 0.5; }

  void search(const Facet& facet, std::size_t most_deviations) {
    facet_ = &facet;
    on_facet_ = problem_.layers;
    deviations_.clear();
    for (std::size_t t = 0; t < problem_.types.size(); ++t) {
      for (std::size_t o = 0; o < problem_.types[t].size(); ++o) {
        if (!facet.has({t, o})) deviations_.push_back({t, o});
      }
    }
    std::stable_sort(deviations_.begin(), deviations_.end(),
                     [&](const TypeOption& a, const TypeOption& b) { return reduced_cost(a) < reduced_cost(b); });
    search_around(0, most_deviations, 0);
  }

  // Gives up to `left` more layers an option from deviations_[first] on, the cheapest first.
  void search_around(std::size_t first, std::size_t left, double cost) {
    search_facet();
    for (std::size_t i = first; left > 0 && i < deviations_.size(); ++i) {
      const TypeOption& option = deviations_[i];
      const double more = cost + reduced_cost(option);
      if (!may_improve(more)) break;
      if (on_facet_[option.type] == 0) continue;
      off_facet_.push_back(option);
      --on_facet_[option.type];
      search_around(i, left - 1, more);
      ++on_facet_[option.type];
      off_facet_.pop_back();
    }
  }

  // Tries how many of the other layers take each of the facet's options.
  void search_facet() {
    Load base;
    for (std::size_t t = 0; t < problem_.types.size(); ++t) {
      base = base + on_facet_[t] * problem_.types[t][facet_->base[t]];
    }
    for (const TypeOption& layer : off_facet_) base = base + problem_.types[layer.type][layer.option];
    double most[2] = {0, 0};
    Load step[2];
    for (std::size_t m = 0; m < facet_->others.size(); ++m) {
      const auto& [type, option] = facet_->others[m];
      step[m] = problem_.types[type][option] + -1 * problem_.types[type][facet_->base[type]];
      most[m] = on_facet_[type];
    }
    const bool same_type = facet_->others.size() == 2 && facet_->others[0].type == facet_->others[1].type;
    for (double a = 0; a <= most[0]; ++a) {
      const Load load = base + a * step[0];
      Range b{0, same_type ? most[0] - a : most[1]};
      b.clip(step[1].device, problem_.device - load.device);
      b.clip(step[1].host, problem_.host - load.host);
      if (b.low > b.high) continue;
      const double fastest = step[1].time < 0 ? b.high : b.low;
      const double time = load.time + fastest * step[1].time;
      if (time < best_.time) best_ = {time, layers_with(a, fastest)};
    }
  }

  // When that many layers take facet_->others.
  std::vector<std::vector<std::size_t>> layers_with(double a, double b) const {
    std::vector<std::vector<std::size_t>> layers;
    for (std::size_t t = 0; t < problem_.types.size(); ++t) {
      layers.emplace_back(problem_.types[t].size(), 0)[facet_->base[t]] = static_cast<std::size_t>(on_facet_[t]);
    }
    const double moved[2] = {a, b};
    for (std::size_t m = 0; m < facet_->others.size(); ++m) {
      const auto& [type, option] = facet_->others[m];
      layers[type][option] = static_cast<std::size_t>(moved[m]);
      layers[type][facet_->base[type]] -= layers[type][option];
    }
    for (const TypeOption& layer : off_facet_) ++layers[layer.type][layer.option];
    return layers;
  }

  const SearchProblem& problem_;
  ChainResult& best_;
  double bound_ = 0;
  std::vector<std::vector<double>> reduced_ = {};  // [type][option]: what a layer with it adds to the bound

  // The facet being searched.
  const Facet* facet_ = nullptr;
  std::vector<TypeOption> deviations_ = {};  // options that are not on it
  std::vector<TypeOption> off_facet_ = {};   // one entry per layer that takes one of those
  std::vector<double> on_facet_ = {};        // per type: number of the other layers
};

}  // namespace

double improve(const SearchProblem& problem, ChainResult& best) { return Search(problem, best).run(); }

}  // namespace l2l::compiler::remat
