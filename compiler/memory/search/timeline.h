// Lifetimes of one stream as intervals of sections: the maximal sets of blocks alive at once, in order of time.
#pragma once

#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

// Plain data. Block b is in the sections [begin[b], end[b]), at least one. Two blocks are alive at the same time if and
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

}  // namespace l2l::compiler::memory
