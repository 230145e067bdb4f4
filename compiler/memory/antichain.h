// The heaviest set of tensors none of which is done before another begins.
#pragma once

#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Of the tensors `living`, which are alive; weights are per tensor of the problem. Takes a bit for each pair, and a
// flow over the pairs with none between.
std::vector<Index> heaviest_antichain(const Problem& problem, const std::vector<Index>& living,
                                      const std::vector<Bytes>& weights);

}  // namespace l2l::compiler::memory
