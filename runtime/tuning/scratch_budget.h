// recompute.budget: a limit on the scratch of a block's backward visit.
#pragma once

#include "runtime/plan/fixed_decisions.h"
#include "runtime/tuning/step_costs.h"

namespace l2l::runtime {

// Blocks keep what recompute.policy says, and their backward visits have at most recompute.budget of scratch, for which
// they recompute more (compiler/remat/stage.h). Throws OutOfMemory when no program has.
Decisions decisions_within_budget(const RunParts& parts, StepCosts& costs);

}  // namespace l2l::runtime
