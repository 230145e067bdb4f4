#include "compiler/memory/bounds.h"

#include <algorithm>
#include <tuple>

#include "compiler/memory/antichain.h"
#include "compiler/memory/interference.h"

namespace l2l::compiler::memory {
namespace {

struct Peak {
  Bytes load = 0;
  Time time = 0;
  std::size_t stream = 0;
};

// The highest sum of weights alive at one moment of one stream.
Peak highest_peak(const Problem& problem, const std::vector<Bytes>& weights) {
  Peak peak;
  for (std::size_t s = 0; s < problem.streams; ++s) {
    std::vector<std::tuple<Time, bool, Bytes>> changes;  // (time, begins, bytes); ends sort before beginnings
    for (Index t = 0; t < problem.tensors.size(); ++t) {
      const Time begin = problem.begin_of(t)[s], end = problem.end_of(t)[s];
      if (begin >= end || weights[t] == 0) continue;
      changes.emplace_back(begin, true, weights[t]);
      changes.emplace_back(end, false, weights[t]);
    }
    std::sort(changes.begin(), changes.end());
    Bytes load = 0;
    for (const auto& [time, begins, bytes] : changes) {
      load = begins ? load + bytes : load - bytes;
      if (load > peak.load) peak = {load, time, s};
    }
  }
  return peak;
}

// For tensors that are alive together. Without groups each begins at a multiple of the alignment, so that all but the
// highest take their size aligned up.
Bound sum_of(const Problem& problem, Certificate certificate, std::vector<Index> tensors,
             const std::vector<Bytes>& weights) {
  Bound bound{0, certificate, std::move(tensors)};
  Bytes padding = 0;
  for (const Index t : bound.tensors) {
    bound.bytes += weights[t];
    padding = std::max(padding, weights[t] - problem.tensors[t].size);
  }
  bound.bytes -= padding;
  return bound;
}

std::vector<Bytes> weights_of(const Problem& problem) {
  std::vector<Bytes> weights;
  for (const Tensor& tensor : problem.tensors) {
    weights.push_back(problem.groups.empty() ? align_up(tensor.size, problem.alignment) : tensor.size);
  }
  return weights;
}

Bound bound_of_load(const Problem& problem) {
  const std::vector<Bytes> weights = weights_of(problem);
  const Peak peak = highest_peak(problem, weights);
  std::vector<Index> tensors;
  for (Index t = 0; t < problem.tensors.size(); ++t) {
    const bool there = problem.begin_of(t)[peak.stream] <= peak.time && peak.time < problem.end_of(t)[peak.stream];
    if (there && problem.alive(t)) tensors.push_back(t);
  }
  return sum_of(problem, Certificate::live_load, std::move(tensors), weights);
}

void raise_to_extent(const Problem& problem, const std::vector<Index>& tensors, Bound& bound) {
  Bytes end = 0, highest = 0;
  for (const Index t : tensors) {
    end = std::max(end, problem.tensors[t].offset.value_or(end)) + problem.tensors[t].size;
    highest = std::max(highest, end);
  }
  if (highest > bound.bytes) bound = {highest, Certificate::extent, tensors};
}

}  // namespace

const char* name_of(Certificate certificate) {
  static constexpr const char* kNames[] = {"live load", "antichain", "extent"};
  return kNames[static_cast<int>(certificate)];
}

Bound quick_bound(const Problem& problem) {
  Bound bound = bound_of_load(problem);
  for (Index t = 0; t < problem.tensors.size(); ++t) raise_to_extent(problem, {t}, bound);
  for (const std::vector<Index>& group : problem.groups) raise_to_extent(problem, group, bound);
  return bound;
}

Bound lower_bound(const Problem& problem, const std::function<bool()>& stop) {
  Bound bound = quick_bound(problem);
  const std::vector<Index> alive = live_tensors(problem);
  if (problem.streams == 1 || alive.size() > kMostForFlow) return bound;
  const std::vector<Bytes> weights = weights_of(problem);
  std::optional<std::vector<Index>> antichain = heaviest_antichain(problem, alive, weights, stop);
  if (!antichain) return bound;
  Bound heaviest = sum_of(problem, Certificate::antichain, std::move(*antichain), weights);
  if (heaviest.bytes >= bound.bytes) bound = std::move(heaviest);
  return bound;
}

}  // namespace l2l::compiler::memory
