#include "compiler/memory/search/search_orders.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/memory/search/random.h"

namespace l2l::compiler::memory {
namespace {

constexpr double kReaches[] = {0.05, 0.15, 0.4};  // displacement of a block, relative to their number

struct OrderFeatures {
  Bytes width, size, load;
  double begin, end;
  double area() const { return static_cast<double>(width) * static_cast<double>(size); }
};

std::vector<OrderFeatures> features_of(const SearchGraph& graph) {
  std::vector<Bytes> loads;
  for (Index section = 0; section < graph.sections.count(); ++section) loads.push_back(graph.load(section));
  std::vector<OrderFeatures> features;
  for (Index block = 0; block < graph.count(); ++block) {
    const std::span<const Index> sections = graph.sections_of[block];
    OrderFeatures its{graph.in_line ? sections.size() : graph.neighbours[block].size(), graph.size[block], 0,
                      graph.begin[block], graph.end[block]};
    for (const Index section : sections) its.load = std::max(its.load, loads[section]);
    features.push_back(its);
  }
  return features;
}

using Key = std::array<double, 3>;

Key key_of(const OrderFeatures& block, std::size_t order) {
  const double width = static_cast<double>(block.width), size = static_cast<double>(block.size);
  const double load = static_cast<double>(block.load);
  switch (order) {
    case 0:
      return {width, size, load};
    case 1:
      return {load, block.area(), width};
    case 2:
      return {block.area(), load, width};
    case 3:
      return {size, width, load};
    case 4:
      return {load, width, size};
    case 5:
      return {-block.begin, width, size};
    default:
      return {block.end, width, size};
  }
}

}  // namespace

Ranks search_order(const SearchGraph& graph, std::size_t order, std::uint64_t seed) {
  const std::vector<OrderFeatures> features = features_of(graph);
  std::vector<Key> keys;
  for (const OrderFeatures& block : features) keys.push_back(key_of(block, order % kSearchOrders));
  std::vector<Index> blocks(graph.count());
  std::iota(blocks.begin(), blocks.end(), Index{0});
  std::stable_sort(blocks.begin(), blocks.end(), [&](Index a, Index b) { return keys[a] > keys[b]; });
  if (order >= kSearchOrders) {
    SplitMix random(seed + order);
    std::vector<double> place(graph.count());
    const double reach = static_cast<double>(graph.count()) * kReaches[order / kSearchOrders % std::size(kReaches)];
    for (std::size_t at = 0; at < blocks.size(); ++at)
      place[blocks[at]] = static_cast<double>(at) + reach * random.unit();
    std::stable_sort(blocks.begin(), blocks.end(), [&](Index a, Index b) { return place[a] < place[b]; });
  }
  Ranks ranks(graph.count());
  for (std::size_t at = 0; at < blocks.size(); ++at) ranks[blocks[at]] = static_cast<std::uint32_t>(at);
  return ranks;
}

}  // namespace l2l::compiler::memory
