// How the ranks of a run share the parameter server: each has a shard of every group, which it alone updates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/model_layout.h"

namespace l2l::eps {

// One process among those that train together.
struct Rank {
  int index = 0;
  int count = 1;
  int neighbours = 1;  // of them on its machine, itself included
  bool operator==(const Rank&) const = default;
};

// A place within a group at which it is cut: how much of it lies before.
struct ShardCut {
  std::int64_t gradient = 0;  // elements of its gradients
  std::int64_t wire = 0;      // elements of its wire
  std::int64_t block = 0;     // blocks (eps/group_memory.h)
  std::int64_t scale = 0;     // scales of an int8 moment
  bool operator==(const ShardCut&) const = default;
};

// Elements [begin, end).
struct ElementRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
  // Of it, what lies in `other` too; where nothing does, an empty range at one of its ends.
  ElementRange common(ElementRange other) const {
    return {std::clamp(other.begin, begin, end), std::clamp(other.end, begin, end)};
  }
};

// Rank r has what lies between cuts r and r + 1, which may be nothing: about the same number of trained elements as
// every other one. Cuts lie at blocks, so that no bit of an update depends on them, and with `whole_tensors` only where
// tensors begin. There are ranks + 1. Pure.
std::vector<ShardCut> shard_cuts(const GroupSpec& group, int ranks, bool whole_tensors);

// What a rank has of a group's gradients, and of its wire. `cuts`: shard_cuts().
ElementRange gradients_of_rank(std::span<const ShardCut> cuts, int rank);
ElementRange wire_of_rank(std::span<const ShardCut> cuts, int rank);

// Elements of its group's gradients that a part of a layer brings.
inline ElementRange gradients_of(const ModelLayout& layout, const LayerPart& part) {
  return {part.begin, part.begin + layout.gradient_elements_of(part)};
}
// The same of all parts, by groups.
std::vector<std::vector<ElementRange>> gradients_of_uses(const ModelLayout& layout);
// How many elements the uses of a group bring together of `range`.
std::int64_t elements_of_uses(std::span<const ElementRange> uses, ElementRange range);

// The rank that writes each group, whole, into checkpoints: about the same number of bytes on every rank, and on none
// fewer than on rank 0, which has more to do. `groups`: their bytes. Pure.
std::vector<int> group_writers(std::span<const Bytes> groups, int ranks);

}  // namespace l2l::eps
