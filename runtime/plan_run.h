// From options to the plan of a run, stage by stage; each takes the value that the one before it made:
//
//   Options -> ResolvedOptions -> RunParts -> [Candidates -> Proposals -> StepRatios ->] Decisions -> RunPlan
//
// The stages in brackets are those of options that leave something open; none of them makes the plan of the run.
#pragma once

#include "runtime/plan/run_plan.h"
#include "runtime/tuning/measuring.h"

namespace l2l::runtime {

// Opens the devices, finds (and does not read) the data, decides what blocks do, compiles the programs. `devices`: what
// to run on, idle, when not those that the options name. Throws BadInput, DeviceError. Whether it fits is not asked:
// check_limits() (plan/memory_contract.h).
//
// Where recompute.policy is "auto" or recompute.budget is set, what blocks do is chosen by what pieces of the step
// take, and where batch.micro_batch is "auto", of the microbatches that batch.minibatch can be cut into the one whose
// step is predicted to be the shortest. What this machine's calibration has not is measured in `session` (null: in one
// of its own): pieces run on the devices and, where they compute on the host and the session is thorough, small models
// train. `rank`: this process among those that train together.
RunPlan plan_run(const Options& options, Devices devices = {}, MeasuringSession* session = nullptr,
                 eps::Rank rank = {});

}  // namespace l2l::runtime
