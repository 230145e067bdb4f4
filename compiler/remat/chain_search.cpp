#include "compiler/remat/chain_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "compiler/remat/chain.h"

namespace l2l::compiler::remat {
namespace {

constexpr double kRounding = 1e-14;  // of sums of doubles, relative to their terms

// Ways to choose up to k times one of `options`, not minding the order.
double ways_of(std::size_t options, std::size_t k) {
  double ways = 1;
  for (std::size_t i = 1; i <= k && ways < 1e18; ++i) ways *= static_cast<double>(options + i) / static_cast<double>(i);
  return ways;
}

std::size_t strays_of(std::size_t options, std::size_t layers, std::size_t most) {
  if (ways_of(options, layers) <= static_cast<double>(kEveryChoice)) return layers;
  std::size_t k = 0;
  while (k < layers && ways_of(options, k + 1) <= static_cast<double>(most)) ++k;
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

ChainSearch::ChainSearch(SearchProblem problem, std::size_t most_strays)
    : problem_(std::move(problem)),
      frames_(find_frames(problem_.types)),
      all_layers_(std::accumulate(problem_.layers.begin(), problem_.layers.end(), std::size_t{0})),
      most_strays_(strays_of(options_of(problem_.types), all_layers_, most_strays)) {
  for (const Frame& frame : frames_) {
    for (const Tariff& tariff : frame.tariffs) find_bound(tariff);
  }
  if (!fits_at_least()) bound_ = static_cast<double>(kEndlessTime);
}

// The bound of Lagrange: at any tariff, what the cheapest options cost less the price of all bytes that there are. Less
// what doubles may be off by.
void ChainSearch::find_bound(const Tariff& tariff) {
  const double price =
      tariff.device * static_cast<double>(problem_.device) + tariff.host * static_cast<double>(problem_.host);
  double bound = 0;
  std::vector<double> least;
  for (std::size_t t = 0; t < problem_.types.size(); ++t) {
    least.push_back(std::numeric_limits<double>::infinity());
    for (const Load& load : problem_.types[t]) least[t] = std::min(least[t], tariff.of(load));
    bound += static_cast<double>(problem_.layers[t]) * least[t];
  }
  bound = bound - price - kRounding * (bound + price);
  if (!least_.empty() && bound <= bound_) return;
  bound_ = bound;
  tariff_ = tariff;
  least_ = std::move(least);
}

// Each kind of bytes by itself.
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

// Whether a choice that costs so much beyond the bound cannot take less than `best`, by a whole number.
bool ChainSearch::hopeless(double cost, const SearchResult& best) const {
  return bound_ + cost >= static_cast<double>(best.time) - 0.5;
}

// Per layer that takes it, beyond the bound.
double ChainSearch::extra_cost(const Move& move) const {
  const double cost = tariff_.of(problem_.types[move.type][move.option]);
  return std::max(0.0, cost - least_[move.type] - kRounding * cost);
}

// Of every choice that has a face of this frame, strays apart.
double ChainSearch::extra_cost(const Frame& frame) const {
  double cost = 0;
  for (std::size_t t = 0; t < problem_.types.size(); ++t) {
    if (problem_.layers[t] <= most_strays_) continue;
    double least = extra_cost({t, frame.base[t]});
    for (const Move& move : frame.moves) {
      if (move.type == t) least = std::min(least, extra_cost(move));
    }
    cost += static_cast<double>(problem_.layers[t] - most_strays_) * least;
  }
  return cost;
}

bool ChainSearch::improve(SearchResult& best) {
  if (hopeless(0, best)) return true;
  std::vector<std::pair<double, const Frame*>> order;
  for (const Frame& frame : frames_) order.emplace_back(extra_cost(frame), &frame);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [cost, frame] : order) {
    if (hopeless(cost, best)) return false;
    if (search(*frame, best) && cost == 0) return true;
  }
  return false;
}

// Returns whether it tried all numbers of strays that are not hopeless.
bool ChainSearch::search(const Frame& frame, SearchResult& best) {
  frame_ = &frame;
  on_face_ = problem_.layers;
  others_.clear();
  for (std::size_t t = 0; t < problem_.types.size(); ++t) {
    for (OptionIndex o = 0; o < problem_.types[t].size(); ++o) {
      const Move move{t, o};
      const bool on_frame = frame.base[t] == o || std::count(frame.moves.begin(), frame.moves.end(), move) > 0;
      if (!on_frame) others_.push_back(move);
    }
  }
  std::stable_sort(others_.begin(), others_.end(),
                   [&](const Move& a, const Move& b) { return extra_cost(a) < extra_cost(b); });
  return descend(0, most_strays_, extra_cost(frame), best);
}

// Strays from others_[first] on, up to `left` more, cheapest first. Returns whether `left` kept it from none.
bool ChainSearch::descend(std::size_t first, std::size_t left, double cost, SearchResult& best) {
  search_face(best);
  bool all = true;
  for (std::size_t i = first; i < others_.size(); ++i) {
    const double more = cost + extra_cost(others_[i]);
    if (hopeless(more, best)) break;
    if (on_face_[others_[i].type] == 0) continue;
    if (left == 0) return false;
    strays_.push_back(others_[i]);
    --on_face_[others_[i].type];
    all = descend(i, left - 1, more, best) && all;
    ++on_face_[others_[i].type];
    strays_.pop_back();
  }
  return all;
}

// Strays, and all others with the base.
Load ChainSearch::base_load() const {
  Load sum;
  for (std::size_t t = 0; t < problem_.types.size(); ++t) {
    sum += times(on_face_[t], problem_.types[t][frame_->base[t]]);
  }
  for (const Move& stray : strays_) sum += problem_.types[stray.type][stray.option];
  return sum;
}

void ChainSearch::search_face(SearchResult& best) const {
  const Load base = base_load();
  Face face;
  face.device_left = problem_.device - base.device;
  face.host_left = problem_.host - base.host;
  std::int64_t most[2] = {0, 0};
  Load step[2];
  for (std::size_t m = 0; m < frame_->moves.size(); ++m) {
    const Move& move = frame_->moves[m];
    const Load &to = problem_.types[move.type][move.option], &from = problem_.types[move.type][frame_->base[move.type]];
    step[m] = {to.time - from.time, to.device - from.device, to.host - from.host};
    most[m] = static_cast<std::int64_t>(on_face_[move.type]);
  }
  const bool same_type = frame_->moves.size() == 2 && frame_->moves[0].type == frame_->moves[1].type;
  face.time = {step[0].time, step[1].time};
  face.device = {step[0].device, step[1].device};
  face.host = {step[0].host, step[1].host};
  face.most_a = most[0];
  face.most_b = most[1];
  face.most_both = same_type ? most[0] : most[0] + most[1];
  if (const auto point = best_point(face, best.time - base.time)) {
    best.time = base.time + point->time;
    count(*point, best);
  }
}

void ChainSearch::count(const FacePoint& point, SearchResult& best) const {
  best.layers.clear();
  for (std::size_t t = 0; t < problem_.types.size(); ++t) {
    best.layers.emplace_back(problem_.types[t].size(), 0);
    best.layers[t][frame_->base[t]] = on_face_[t];
  }
  const std::int64_t moved[2] = {point.a, point.b};
  for (std::size_t m = 0; m < frame_->moves.size(); ++m) {
    const Move& move = frame_->moves[m];
    best.layers[move.type][frame_->base[move.type]] -= static_cast<std::size_t>(moved[m]);
    best.layers[move.type][move.option] += static_cast<std::size_t>(moved[m]);
  }
  for (const Move& stray : strays_) ++best.layers[stray.type][stray.option];
}

}  // namespace l2l::compiler::remat
