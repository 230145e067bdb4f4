// What the exact search works on: blocks of one tensor, which of them meet, and sections. A section is a set of blocks
// that meet pairwise, so that they lie one above the other: the lowest place of any of them plus all their sizes is a
// bound.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

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

// Plain data.
struct SearchGraph {
  std::vector<Bytes> size;  // per block
  std::vector<std::optional<Bytes>> pinned;
  std::vector<double> begin,
      end;           // the clock's entries added up: of blocks one after the other, those of the later are higher
  Rows meetings;     // block -> blocks
  Rows sections;     // section -> blocks, ascending
  Rows sections_of;  // block -> sections, ascending
  // One stream: sections follow each other in time, and each block is in consecutive ones.
  bool in_line = false;

  std::size_t count() const { return size.size(); }
  Bytes load(Index section) const;
};

// The blocks are not grouped. On one stream all sections are taken, on several those of cliques.h.
// When `stop` says so, sections are left out, and the graph is of no use.
SearchGraph make_search_graph(const Blocks& blocks, const std::function<bool()>& stop);

}  // namespace l2l::compiler::memory
