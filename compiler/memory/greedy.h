// Greedy solvers: place blocks one by one in a given order. All are deterministic.
#pragma once

#include <span>
#include <vector>

#include "compiler/memory/gaps.h"

namespace l2l::compiler::memory {

// single_object and many_objects are those of SOMAS (MLSys 2023): a block that fits nowhere opens a region of its own
// size on top of all others. A later block enters a region at its begin if it interferes with nothing inside
// (single_object), or takes any free extent of it (many_objects). `gaps` knows no regions: a block goes to any gap
// between the blocks it interferes with (gaps.h).
enum class Method { gaps, many_objects, single_object };
// Descending by size, length of lifetime, size x lifetime, number of neighbours (interference.h), size x neighbours;
// or ascending by begin.
enum class Order { size, lifetime, area, degree, size_degree, begin };

struct Greedy {
  Method method = Method::gaps;
  Order order = Order::size;
  Fit fit = Fit::best;
};

// All combinations, the most successful ones first, of which Greedy{} is the first.
std::vector<Greedy> all_greedy();
std::string name_of(const Greedy& greedy);  // "many objects, size, best fit"

// Pinned blocks are placed first. Returns nothing when stop(), called now and then, is true.
std::optional<Placement> place(const Blocks& blocks, const Greedy& greedy, const std::function<bool()>& stop);
inline Placement place(const Blocks& blocks, const Greedy& greedy) { return *place(blocks, greedy, {}); }

// Places all blocks again, from the lowest to the highest, each as low as possible. No block ends higher than before.
// Returns nothing when stop() is true.
std::optional<Placement> compact(const Blocks& blocks, const Placement& placement, const std::function<bool()>& stop);
inline Placement compact(const Blocks& blocks, const Placement& placement) { return *compact(blocks, placement, {}); }

// For problems whose interference graph is too large to build: best fit in order of begin, in O(n log n) time. With
// several streams a tensor's memory is free again when none is left that begins before it is done.
Plan plan_by_sweep(const Problem& problem);

}  // namespace l2l::compiler::memory
