// From options to the plan of a run, stage by stage; each takes the value that the one before it made:
//
//   Options -> ResolvedOptions -> RunParts -> [Candidates -> Proposals -> StepRatios ->] Decisions -> RunPlan
//
// The stages in brackets are those of options that leave something open; none of them makes the plan of the run.
#pragma once

#include "runtime/plan/run_plan.h"

namespace l2l::runtime {

// Opens the devices, finds (and does not read) the data, decides what blocks do, compiles the programs. `devices`: what
// to run on, idle, when not those that the options name. Throws BadInput, DeviceError. Whether it fits is not asked:
// check_limits() (plan/memory_contract.h).
//
// Where recompute.policy is "auto" or recompute.budget is set, what blocks do is chosen by what pieces of the step
// take, and where batch.minibatch alone is set, of the microbatches that it can be cut into the one whose step is
// predicted to be the shortest. That runs pieces on the devices and, where they compute on the host, trains small
// models beside them, for some seconds, unless this machine's calibration has what they show.
RunPlan plan_run(const Options& options, Devices devices = {});

}  // namespace l2l::runtime
