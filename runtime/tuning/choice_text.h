// What was chosen for the blocks of a run, and why, in lines for people: by class of tensors.
#pragma once

#include <string>
#include <vector>

#include "runtime/tuning/block_chain.h"

namespace l2l::runtime {

// "1.25 ms"
std::string milliseconds(double seconds);

// Of `candidate` out of `types`, for a run like `plan`: weights, layer inputs, and for each program of a block the
// values that it keeps and makes again, with what both take.
std::vector<std::string> explain(const RunPlan& plan, const std::vector<BlockChain::Type>& types,
                                 const BlockChain::Candidate& candidate, StepCosts& costs);

}  // namespace l2l::runtime
