// Greedy solvers: blocks one by one in some order, each to a place that those before it leave free. All are
// deterministic.
//
// Single and many objects are those of SOMAS (MLSys 2023): the first block that fits nowhere opens a region on top of
// all others, as long as itself. Of single objects, another one enters a region when it meets none of those inside, at
// its begin; of many objects, to any free extent of it. `gaps` knows no regions: a block goes anywhere between those it
// meets.
#pragma once

#include <span>
#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

enum class Method { gaps, many_objects, single_object };
enum class Order { size, lifetime, area, meetings, size_meetings, begin };
enum class Fit { best, first };  // the extent that it fills most tightly, the lowest of equals; or the lowest

struct Greedy {
  Method method = Method::gaps;
  Order order = Order::size;
  Fit fit = Fit::best;
};

struct Placement {
  std::vector<Bytes> offsets = {};  // per block
  Bytes footprint = 0;              // highest end of a block, its size aligned up
};

// All of them, those that are good more often first.
std::vector<Greedy> all_greedy();
std::string name_of(const Greedy& greedy);  // "many objects, size, best fit"

// Blocks in this order; equals in the order of their numbers. Lifetime: the sum over streams.
std::vector<Index> order_of(const Blocks& blocks, Order order);

// Pinned blocks come first, whatever the order. Takes every block once. Stops and returns an empty placement as soon as
// a block ends above `limit`.
Placement place(const Blocks& blocks, const Greedy& greedy, Bytes limit = ~Bytes{0});
Placement place_in_gaps(const Blocks& blocks, std::span<const Index> order, Fit fit, Bytes limit = ~Bytes{0});
Placement place_in_regions(const Blocks& blocks, std::span<const Index> order, Method method, Fit fit);

// Places them anew from the lowest up, each as low as it goes: no block ends higher than before.
Placement settle(const Blocks& blocks, const Placement& placement);

// Without a list of meetings, for problems too large for one: tensors in the order of their begin, best fit among what
// is free then. Of several streams, every tensor by itself. In n log n time.
Plan plan_by_sweep(const Problem& problem);

}  // namespace l2l::compiler::memory
