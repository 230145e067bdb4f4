// From options to the plan of a run: what they leave open is chosen first.
#pragma once

#include "runtime/plan/run_plan.h"

namespace l2l::runtime {

// As RunPlan's constructor. Where recompute.policy is "auto" or recompute.budget is set, what blocks do is chosen
// (recomputation_choice.h), and where batch.minibatch alone is set, of the microbatches that it can be cut into the one
// whose step is predicted to be the shortest. That runs pieces of the step on the devices and, where they compute on
// the host, trains small models beside them, for some seconds, unless this machine's calibration has what they show.
RunPlan plan_run(const Options& options, Devices devices = {});

}  // namespace l2l::runtime
