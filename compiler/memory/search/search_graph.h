// The problem of the exact search: blocks of one tensor, their interference graph, and sections. A section is a clique:
// its blocks lie one above the other, so that the lowest offset among them plus the sum of their sizes bounds the
// footprint from below.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

// Rows of indices of different lengths, in one array.
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
  const Blocks& blocks;
  std::vector<Bytes> size = {};  // per block
  Rows sections = {};            // section -> blocks, ascending
  Rows sections_of = {};         // block -> sections, ascending
  // One stream: sections follow each other in time, and the sections of a block are consecutive.
  bool in_line = false;

  std::size_t count() const { return size.size(); }
  Bytes load(Index section) const;  // sum of sizes
};

// `blocks` must not be grouped, and outlive the graph. With one stream the sections are all maximal cliques, with
// several those of cliques.h. When stop() becomes true, the graph is incomplete and must not be used.
SearchGraph make_search_graph(const Blocks& blocks, const std::function<bool()>& stop);

}  // namespace l2l::compiler::memory
