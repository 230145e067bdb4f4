// What a planned run will need of every kind of memory (law 3), before any of it is allocated.
#pragma once

#include "eps/checkpoint/tensor_list.h"
#include "l2l/trainer.h"
#include "runtime/plan/generation_plan.h"
#include "runtime/plan/run_plan.h"

namespace l2l::runtime {

// Lines of host memory of a run with these parts, of which each device stages `staging` for copies and takes an arena
// of `arena` bytes. Includes what the process holds now.
std::vector<ContractLine> host_lines(const RunParts& parts, const HostStaging& staging, Bytes arena);

MemoryContract memory_contract(const RunPlan& plan);
// The same, for who has its checkpoint_size() already.
MemoryContract memory_contract(const RunPlan& plan, const eps::CheckpointSize& checkpoint);
// Of a checkpoint of the run.
eps::CheckpointSize checkpoint_size(const RunPlan& plan);
// With what continuing texts needs besides, on the first device.
void add_generation(const GenerationPlan& generation, const RunPlan& plan, MemoryContract& contract);

// Whether a refusal says what would need less, which takes a second to find out (runtime/plan/memory_advice.h).
enum class Advice : std::uint8_t { none, planned };

// Throws OutOfMemory when the contract exceeds a limit of the options or of the machine, naming need, limit and
// shortfall.
void check_limits(const RunPlan& plan, const MemoryContract& contract, Advice advice = Advice::none);
// Throws BadInput, or OutOfMemory, where limits of the process (ulimit -v, -d, -n) leave less than the run needs: what
// it allocates, the stacks of its threads, and its files.
void check_process_limits(const RunPlan& plan, const MemoryContract& contract);

}  // namespace l2l::runtime
