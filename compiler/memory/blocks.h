// The problem in the form that solvers use: blocks to place, and their interference graph.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/memory/interference.h"

namespace l2l::compiler::memory {

// A tensor within its block. A block is one tensor or one group.
struct Part {
  Index tensor = 0;
  Bytes offset = 0;  // from the begin of the block
  Bytes size = 0;
};

// For blocks at offsets x and y, y - x must not lie in the open interval (low, high). Two interfering blocks of one
// tensor each have the single range (-size of the block at y, size of the block at x).
struct Range {
  std::int64_t low = 0, high = 0;
};

// Immutable. A tensor without bytes or lifetime is in no block, unless another tensor of its group is alive. Without
// groups, blocks are numbered by begin. Memory: four bytes per edge. With several streams, construction compares the
// clocks of every pair of tensors; count_interferences() (interference.h) tells the number of edges beforehand.
class Blocks {
 public:
  // `problem` must be one that check() accepts, and outlive this object. Blocks that are not connected know nothing of
  // their neighbours, which must not be asked for. They stay unconnected when stop(), called now and then, is true.
  explicit Blocks(const Problem& problem, bool connected = true, const std::function<bool()>& stop = {});
  bool connected() const { return !starts_.empty(); }

  std::size_t count() const { return blocks_.size(); }
  Bytes size(Index block) const { return blocks_[block].size; }  // aligned up
  Bytes alignment() const { return problem_.alignment; }
  std::span<const Part> parts(Index block) const {
    return std::span(parts_).subspan(blocks_[block].parts, blocks_[block].part_count);
  }
  std::optional<Bytes> pinned(Index block) const { return blocks_[block].pinned; }

  // The blocks that are alive at the same time as `block`, ascending.
  std::span<const Index> neighbours(Index block) const {
    return std::span(neighbours_).subspan(starts_[block], starts_[block + 1] - starts_[block]);
  }
  // Of the k-th neighbour, if grouped(): ascending, disjoint, multiples of the alignment.
  std::span<const Range> ranges(Index block, std::size_t k) const {
    const std::size_t at = starts_[block] + k;
    return std::span(ranges_).subspan(range_starts_[at], range_starts_[at + 1] - range_starts_[at]);
  }
  // Whether some block has several parts.
  bool grouped() const { return grouped_; }
  // Whether there are neither groups nor pinned blocks.
  bool unconstrained() const { return unconstrained_; }
  const Problem& problem() const { return problem_; }
  // Edges (both directions) and ranges: the work of placing every block once. 0 if not connected.
  std::uint64_t steps() const { return neighbours_.size() + ranges_.size(); }

  // The plan for these offsets of blocks. Tensors in no block go to where they are pinned, else to 0.
  Plan plan(std::span<const Bytes> offsets) const;

 private:
  struct Block {
    Bytes size = 0;
    std::size_t parts = 0, part_count = 0;
    std::optional<Bytes> pinned;
  };

  void add_block(std::span<const Index> tensors);
  void connect_parts(const std::vector<Index>& live, const InterferenceGraph& graph);

  const Problem& problem_;
  std::vector<Block> blocks_;
  std::vector<Part> parts_;
  std::vector<std::size_t> starts_;
  std::vector<Index> neighbours_;
  std::vector<std::size_t> range_starts_;
  std::vector<Range> ranges_;
  bool grouped_ = false, unconstrained_ = true;
};

}  // namespace l2l::compiler::memory
