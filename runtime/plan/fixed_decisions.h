// Decisions of options that leave nothing open to measured times.
#pragma once

#include "runtime/plan/decisions.h"
#include "runtime/plan/run_parts.h"

namespace l2l::runtime {

// Every block does what recompute.policy says, at fixed_placements(). Throws Error where the options leave open what
// blocks do (recompute.leaves_choice()).
Decisions fixed_decisions(const RunParts& parts);

// What transfer.stash and transfer.resident_layers say for blocks with these policies; of "auto", the stashes of as
// many blocks on the device as fit there.
std::vector<BlockPlacement> fixed_placements(const RunParts& parts, const Decisions& decisions);

// The run with the least memory that the options allow: blocks keep their inputs alone, on the host unless
// transfer.stash = "device".
Decisions least_decisions(const RunParts& parts);

// The execution of `parts` with blocks at these placements.
ExecutionPlan execution_with(const RunParts& parts, std::vector<BlockPlacement> placements);

// What each device's arena would take. Compiles the programs; allocates nothing.
Bytes arena_bytes(const RunParts& parts, const Decisions& decisions);

}  // namespace l2l::runtime
