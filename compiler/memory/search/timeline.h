// Blocks of one stream on a line of sections: the largest sets alive at once, in order of time.
#pragma once

#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

// Plain data: block b is in the sections [begin[b], end[b]), never none. Two blocks meet when they share a section.
struct Timeline {
  std::size_t sections = 0;
  std::vector<Index> begin, end;

  std::uint64_t members() const {  // of all sections together
    std::uint64_t sum = 0;
    for (std::size_t block = 0; block < begin.size(); ++block) sum += end[block] - begin[block];
    return sum;
  }
};

// Of one stream, not grouped.
Timeline make_timeline(const Blocks& blocks);

}  // namespace l2l::compiler::memory
