#include "compiler/memory/greedy.h"

#include <algorithm>
#include <numeric>

namespace l2l::compiler::memory {
namespace {

// From the earliest begin of a part to the latest end, summed over streams.
double lifetime_of(const Blocks& blocks, Index block) {
  const Problem& problem = blocks.problem();
  double sum = 0;
  for (std::size_t s = 0; s < problem.streams; ++s) {
    Time begin = problem.begin_of(blocks.parts(block)[0].tensor)[s], end = begin;
    for (const Part& part : blocks.parts(block)) {
      begin = std::min(begin, problem.begin_of(part.tensor)[s]);
      end = std::max(end, problem.end_of(part.tensor)[s]);
    }
    sum += static_cast<double>(end) - static_cast<double>(begin);
  }
  return sum;
}

double weight_of(const Blocks& blocks, Index block, Order order) {
  const double size = static_cast<double>(blocks.size(block));
  switch (order) {
    case Order::size:
      return size;
    case Order::lifetime:
      return lifetime_of(blocks, block);
    case Order::area:
      return size * lifetime_of(blocks, block);
    case Order::degree:
      return static_cast<double>(blocks.neighbours(block).size());
    case Order::size_degree:
      return size * static_cast<double>(blocks.neighbours(block).size());
    case Order::begin:
      break;
  }
  return 0;
}

// The blocks in this order; ties are broken by number.
std::vector<Index> order_of(const Blocks& blocks, Order order) {
  std::vector<Index> list(blocks.count());
  std::iota(list.begin(), list.end(), Index{0});
  std::vector<double> weights;
  for (const Index b : list) weights.push_back(weight_of(blocks, b, order));
  std::vector<double> lifetimes;
  for (const Index b : list) lifetimes.push_back(order == Order::size ? lifetime_of(blocks, b) : 0);
  std::stable_sort(list.begin(), list.end(), [&](Index a, Index b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : lifetimes[a] > lifetimes[b];
  });
  return list;
}

// Regions lie one above the other; each is as large as the block that opened it.
std::optional<Placement> place_in_regions(const Blocks& blocks, std::span<const Index> order, Method method, Fit fit,
                                          const std::function<bool()>& stop) {
  struct Region {
    Bytes begin, end;
  };
  Gaps gaps(blocks);
  Bytes top = gaps.placement().footprint;  // regions lie above all pinned blocks
  std::vector<Region> regions;
  const auto inside = [&](Index block, const Region& region) {
    const Bytes offset = gaps.placement().offsets[block];
    return gaps.placed(block) && region.begin <= offset && offset < region.end;
  };
  const auto choose = [&](Index block) {
    const Bytes size = blocks.size(block);
    const std::span<const Index> met = blocks.neighbours(block);
    gaps.look_at(block);
    for (const Region& region : regions) {
      if (region.end - region.begin < size) continue;
      if (method == Method::many_objects) {
        const Bytes offset = gaps.choose(fit, region.begin, region.end - size);
        if (offset != Gaps::kNone) return offset;
      } else if (std::none_of(met.begin(), met.end(), [&](Index other) { return inside(other, region); })) {
        return region.begin;
      }
    }
    regions.push_back({top, top + size});
    top += size;
    return regions.back().begin;
  };
  for (const Index block : order) {
    if (stop && stop()) return std::nullopt;
    if (!blocks.pinned(block)) gaps.put(block, choose(block));
  }
  return gaps.take();
}

}  // namespace

std::optional<Placement> compact(const Blocks& blocks, const Placement& placement, const std::function<bool()>& stop) {
  std::vector<Index> order(blocks.count());
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return placement.offsets[a] < placement.offsets[b]; });
  return place_in_gaps(blocks, order, Fit::first, Gaps::kNone, stop);
}

std::optional<Placement> place(const Blocks& blocks, const Greedy& greedy, const std::function<bool()>& stop) {
  const std::vector<Index> order = order_of(blocks, greedy.order);
  if (greedy.method == Method::gaps) return place_in_gaps(blocks, order, greedy.fit, Gaps::kNone, stop);
  return place_in_regions(blocks, order, greedy.method, greedy.fit, stop);
}

std::vector<Greedy> all_greedy() {
  std::vector<Greedy> all;
  const auto add = [&](Method method, Fit fit) {
    for (const Order order :
         {Order::size, Order::degree, Order::size_degree, Order::lifetime, Order::area, Order::begin}) {
      all.push_back({method, order, fit});
    }
  };
  add(Method::gaps, Fit::best);
  add(Method::gaps, Fit::first);
  add(Method::many_objects, Fit::best);
  add(Method::many_objects, Fit::first);
  add(Method::single_object, Fit::best);  // at the begin of a region: no choice
  return all;
}

std::string name_of(const Greedy& greedy) {
  static constexpr const char* kMethods[] = {"gaps", "many objects", "single object"};
  static constexpr const char* kOrders[] = {"size", "lifetime", "area", "degree", "size x degree", "begin"};
  return std::string(kMethods[static_cast<int>(greedy.method)]) + ", " + kOrders[static_cast<int>(greedy.order)] +
         (greedy.fit == Fit::best ? ", best fit" : ", first fit");
}

}  // namespace l2l::compiler::memory
