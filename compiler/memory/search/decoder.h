// The plan that an order of blocks stands for.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "compiler/memory/gaps.h"
#include "compiler/memory/search/line_fit.h"

namespace l2l::compiler::memory {

// Builds the plan from the bottom up: of the blocks whose lowest possible offset is the lowest of all, the first of the
// order is placed there. With groups or pinned blocks it is that of place_in_gaps() by first fit. Immutable.
class Decoder {
 public:
  // `blocks` must be connected, unless they are of one stream and unconstrained, and outlive this object.
  explicit Decoder(const Blocks& blocks);

  const Blocks& blocks() const { return blocks_; }
  std::uint64_t steps() const { return steps_; }  // of a plan, as in Search::run()

  // Returns nothing as place_in_gaps() does.
  std::optional<Placement> decode(std::span<const Index> order, Bytes highest, const std::function<bool()>& stop) const;

  // Calls visit(other) for the neighbours of a block, ascending.
  template <typename Visit>
  void each_neighbour(Index block, Visit visit) const {
    if (!line_) {
      for (const Index other : blocks_.neighbours(block)) visit(other);
      return;
    }
    for (Index other = 0; other < blocks_.count(); ++other) {
      if (other != block && line_->meet(block, other)) visit(other);
    }
  }

 private:
  const Blocks& blocks_;
  std::optional<LineFit> line_;  // where it is quicker, or there is no graph
  std::uint64_t steps_ = 0;
};

}  // namespace l2l::compiler::memory
