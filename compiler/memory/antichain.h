// The heaviest set of tensors of which no two can share memory.
#pragma once

#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// `tensors` are alive, and sorted by begin (interference.h); `weights` (bytes) are per tensor of the problem. Returns
// the antichain, ascending. Needs a bit for each pair of tensors, and a maximum flow.
std::vector<Index> heaviest_antichain(const Problem& problem, const std::vector<Index>& tensors,
                                      const std::vector<Bytes>& weights);

}  // namespace l2l::compiler::memory
