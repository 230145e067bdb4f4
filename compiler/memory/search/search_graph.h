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

// Lifetimes of one stream as intervals of sections: the maximal sets of blocks alive at once, in order of time. Plain
// data. Block b is in the sections [begin[b], end[b]), at least one. Two blocks are alive at the same time if and
// only if they share a section.
struct Timeline {
  std::size_t sections = 0;
  std::vector<Index> begin, end;

  std::uint64_t members() const {  // of all sections together
    std::uint64_t sum = 0;
    for (std::size_t block = 0; block < begin.size(); ++block) sum += end[block] - begin[block];
    return sum;
  }
};

// `blocks` must be of one stream, and not grouped.
Timeline make_timeline(const Blocks& blocks);

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

// `blocks` must not be grouped, and outlive the graph. With one stream the sections are all maximal cliques. With
// several, where lifetimes are not intervals, they are cliques grown greedily from every block: by neighbours of
// descending size, and, unless the graph is too large, by the bytes of the neighbours that they share. When stop()
// becomes true, the graph is incomplete and must not be used.
SearchGraph make_search_graph(const Blocks& blocks, const std::function<bool()>& stop);

}  // namespace l2l::compiler::memory
