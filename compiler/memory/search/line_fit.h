// Level fit on one stream, without the interference graph.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "compiler/memory/gaps.h"
#include "compiler/memory/search/search_graph.h"

namespace l2l::compiler::memory {

// Builds plans from the bottom up: of the blocks whose lowest possible offset is the lowest of all, the first of an
// order is placed there. For each part of the time it keeps how high the plan is there; a block can be placed on a part
// if its lifetime lies within it. Immutable; memory and, mostly, the time of a plan grow as n log n.
class LineFit {
 public:
  // `blocks` must be of one stream and unconstrained, and outlive this object. They need not be connected.
  explicit LineFit(const Blocks& blocks);

  // `order` names every block once. Returns nothing when a block would end above `highest`, or when stop(), called now
  // and then, is true.
  std::optional<Placement> place(std::span<const Index> order, Bytes highest, const std::function<bool()>& stop) const;

  // Whether two blocks are alive at the same time.
  bool meet(Index a, Index b) const { return line_.begin[a] < line_.end[b] && line_.begin[b] < line_.end[a]; }

 private:
  const Blocks& blocks_;
  const Timeline line_;
  std::vector<Index> first_at_;  // by section: the first block that begins there or later
};

}  // namespace l2l::compiler::memory
