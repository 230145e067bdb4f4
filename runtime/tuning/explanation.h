// What was decided for the blocks of a run, and why, in lines for people.
#pragma once

#include <string>
#include <vector>

#include "runtime/tuning/proposals.h"

namespace l2l::runtime {

// "1.25 ms"
std::string milliseconds(double seconds);

// Weights, layer inputs, and for each program of a block the values that it keeps and recomputes, with what both take.
// Measures copies that are not known.
std::vector<std::string> explain(const RunParts& parts, const Candidates& candidates, const Proposal& proposal,
                                 StepCosts& costs);
// The same in a line: how many values blocks keep.
std::string summarize(const Candidates& candidates, const Proposal& proposal);

}  // namespace l2l::runtime
