// What the exact search works on: blocks of one tensor, which of them meet, and sections. A section is a set of blocks
// that meet pairwise, so that they lie one above the other: the lowest place of any of them plus all their sizes is a
// bound.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/planner/blocks.h"

namespace l2l::device::planner {

// Rows of indices, one after the other.
struct Rows {
  std::vector<std::uint32_t> begin{0};
  std::vector<Index> values;

  std::size_t count() const { return begin.size() - 1; }
  std::span<const Index> operator[](std::size_t row) const {
    return {values.data() + begin[row], values.data() + begin[row + 1]};
  }
  void close_row() { begin.push_back(static_cast<std::uint32_t>(values.size())); }
};

// Plain data. Items are the blocks `blocks[item]`, in ascending order.
struct SearchGraph {
  std::vector<Index> blocks;
  std::vector<Bytes> size;
  std::vector<std::optional<Bytes>> pinned;
  Rows meetings;                // item -> items
  Rows sections;                // section -> items, ascending
  Rows sections_of;             // item -> sections, ascending
  std::vector<Bytes> reserved;  // per section: bytes for blocks that are not items
  // One stream: sections follow each other in time, and each item is in consecutive ones.
  bool in_line = false;

  std::size_t count() const { return size.size(); }
};

// The graph of `chosen` (ascending), or of all blocks. The blocks are not grouped.
SearchGraph make_search_graph(const Blocks& blocks, std::span<const Index> chosen);

// Members of all sections together, of one stream: tells beforehand what a graph would take.
std::uint64_t count_members(const Blocks& blocks, std::span<const Index> chosen);

}  // namespace l2l::device::planner
