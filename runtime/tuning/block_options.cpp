#include "runtime/tuning/block_options.h"

#include <algorithm>
#include <set>

#include "compiler/remat/knapsack.h"

namespace l2l::runtime {

using compiler::Graph;
using compiler::Region;
using compiler::ValueId;
using compiler::Visits;
using compiler::remat::Policy;

namespace {

constexpr std::size_t kKnapsacks = 12;  // taken from the front of all

Cost sum_of(const std::vector<Cost>& costs) {
  Cost sum;
  for (const Cost& cost : costs) sum = sum + cost;
  return sum;
}

std::vector<ValueId> without(std::vector<ValueId> values, ValueId left_out) {
  std::erase(values, left_out);
  return values;
}

// What is kept for nothing goes: as many bytes or more, and no less time.
std::vector<BlockOption> without_dominated(std::vector<BlockOption> options) {
  std::stable_sort(options.begin(), options.end(), [](const BlockOption& a, const BlockOption& b) {
    return a.saved != b.saved ? a.saved < b.saved : a.backward.seconds < b.backward.seconds;
  });
  std::vector<BlockOption> kept;
  for (BlockOption& option : options) {
    if (kept.empty() || option.backward.seconds < kept.back().backward.seconds) kept.push_back(std::move(option));
  }
  return kept;
}

std::vector<std::vector<ValueId>> knapsacks(const Graph& forward, const std::vector<ValueWorth>& values) {
  std::vector<compiler::remat::KnapsackItem> items;
  for (const ValueWorth& value : values) {
    items.push_back({forward.value(value.value).bytes(), compiler::remat::to_nanoseconds(value.again)});
  }
  const compiler::remat::ParetoFront front(items);
  std::vector<std::vector<ValueId>> sets;
  for (std::size_t i = 1; i <= kKnapsacks; ++i) {
    const auto& point = front.points()[(front.points().size() - 1) * i / (kKnapsacks + 1)];
    std::vector<ValueId>& set = sets.emplace_back();
    for (const std::uint32_t item : front.best(point.bytes).items) set.push_back(values[item].value);
  }
  return sets;
}

}  // namespace

Bytes BlockMenu::scratch_of(const Graph& graph) const { return device_.compile(graph)->program().scratch_bytes; }

BlockOption BlockMenu::option(std::string name, Visits visits) {
  BlockOption option;
  option.forward = sum_of(costs_of(visits.forward));
  option.backward = sum_of(costs_of(visits.backward));
  option.saved = visits.forward.region_bytes(Region::saved);
  option.forward_scratch = scratch_of(visits.forward);
  option.backward_scratch = scratch_of(visits.backward);
  option.policy = {std::move(name), std::move(visits)};
  return option;
}

std::vector<ValueWorth> BlockMenu::values(const Graph& forward) {
  const std::vector<ValueId> all = values_to_save(forward, Policy::none);
  const double least = sum_of(costs_of(differentiate(forward, all).backward)).seconds;
  std::vector<ValueWorth> values;
  for (const ValueId value : all) {
    const double seconds = sum_of(costs_of(differentiate(forward, without(all, value)).backward)).seconds;
    values.push_back({value, std::max(0.0, seconds - least)});
  }
  return values;
}

std::vector<BlockOption> BlockMenu::options(const Graph& forward, const std::vector<ValueWorth>& values) {
  std::vector<BlockOption> options;
  std::set<std::vector<ValueId>> seen;
  const auto add = [&](std::string name, const std::vector<ValueId>& saved) {
    if (seen.insert(saved).second) options.push_back(option(std::move(name), differentiate(forward, saved)));
  };
  for (const Policy policy : {Policy::full, Policy::min_cut, Policy::none, Policy::selective}) {
    add(std::string(name_of(policy)), values_to_save(forward, policy));
  }
  for (const std::vector<ValueId>& set : knapsacks(forward, values)) {
    add(std::to_string(set.size()) + " of " + std::to_string(values.size()) + " values", set);
  }
  return without_dominated(std::move(options));
}

}  // namespace l2l::runtime
