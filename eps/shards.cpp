#include "eps/shards.h"

#include <algorithm>
#include <numeric>

#include "eps/group_memory.h"

namespace l2l::eps {
namespace {

std::int64_t blocks_of(std::int64_t elements) { return (elements + kBlock - 1) / kBlock; }

std::int64_t scales_of(std::int64_t elements) {
  return static_cast<std::int64_t>(
      optimizers::scale_bytes(optimizers::MomentFormat::int8, static_cast<Bytes>(elements)) / sizeof(std::uint16_t));
}

// Of a tensor of so many elements, the place for a cut that is nearest to `wanted`.
std::int64_t place_within(std::int64_t elements, std::int64_t wanted, bool whole) {
  const std::int64_t before = whole ? 0 : std::min(wanted, elements) / kBlock * kBlock;
  const std::int64_t after = whole ? elements : std::min(before + kBlock, elements);
  return wanted - before < after - wanted ? before : after;
}

}  // namespace

std::vector<ShardCut> shard_cuts(const GroupSpec& group, int ranks, bool whole_tensors) {
  std::int64_t trained = 0;
  for (const ParameterSpec& parameter : group.parameters) {
    if (parameter.trained) trained += parameter.shape.elements();
  }
  const std::vector<std::int64_t> gradients = group.gradient_offsets();
  std::vector<ShardCut> cuts;
  ShardCut before;  // of the parameters so far
  std::int64_t passed = 0;
  const auto wanted = [&] { return trained * static_cast<std::int64_t>(cuts.size()) / ranks; };
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const ParameterSpec& parameter = group.parameters[i];
    if (!parameter.trained) continue;
    const std::int64_t elements = parameter.shape.elements();
    while (static_cast<int>(cuts.size()) < ranks) {
      const std::int64_t within = place_within(elements, std::max<std::int64_t>(wanted() - passed, 0), whole_tensors);
      if (within == elements) break;  // the next parameter's begin
      cuts.push_back({gradients[i] + within, parameter.offset + within, before.block + blocks_of(within),
                      before.scale + scales_of(within)});
    }
    before.block += blocks_of(elements);
    before.scale += scales_of(elements);
    passed += elements;
  }
  const ShardCut end{group.gradient_elements(), group.elements, before.block, before.scale};
  cuts.resize(static_cast<std::size_t>(ranks) + 1, end);
  return cuts;
}

ElementRange gradients_of_rank(std::span<const ShardCut> cuts, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return {cuts[r].gradient, cuts[r + 1].gradient};
}

ElementRange wire_of_rank(std::span<const ShardCut> cuts, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return {cuts[r].wire, cuts[r + 1].wire};
}

std::vector<std::vector<ElementRange>> gradients_of_uses(const ModelLayout& layout) {
  std::vector<std::vector<ElementRange>> uses(layout.groups.size());
  for (const LayerSpec& layer : layout.layers) {
    for (const LayerPart& part : layer.parts) {
      uses[static_cast<std::size_t>(part.group)].push_back(gradients_of(layout, part));
    }
  }
  return uses;
}

std::int64_t elements_of_uses(std::span<const ElementRange> uses, ElementRange range) {
  std::int64_t elements = 0;
  for (const ElementRange& use : uses) elements += use.common(range).count();
  return elements;
}

// The largest first, each to whoever has least so far (Graham, 1969); then the ranks are ordered by what they got.
std::vector<int> group_writers(std::span<const Bytes> groups, int ranks) {
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t group) { return groups[group]; });
  std::vector<Bytes> loads(static_cast<std::size_t>(ranks), 0);
  std::vector<std::size_t> places(groups.size());
  for (const std::size_t group : order) {
    places[group] = static_cast<std::size_t>(std::ranges::min_element(loads) - loads.begin());
    loads[places[group]] += groups[group];
  }
  std::vector<std::size_t> by_load(loads.size());
  std::iota(by_load.begin(), by_load.end(), std::size_t{0});
  std::ranges::stable_sort(by_load, {}, [&](std::size_t place) { return loads[place]; });
  std::vector<int> ranks_of(loads.size()), writers;
  for (std::size_t rank = 0; rank < by_load.size(); ++rank) ranks_of[by_load[rank]] = static_cast<int>(rank);
  for (const std::size_t place : places) writers.push_back(ranks_of[place]);
  return writers;
}

}  // namespace l2l::eps
