// Steps of a model with fewer blocks than the one that is planned: what cores and caches that all share cost the pieces
// of a step shows only when they run beside each other.
#pragma once

#include "runtime/run_plan.h"

namespace l2l::runtime {

// Half the blocks, and of large ones fewer (about `state` bytes of state), on a host device; alike in all else. Without
// data.
Options shallower(const RunPlan& plan, Bytes state = Bytes{1} << 30);
// Its plan, in which blocks do what `arrangement`, made for the whole model, says at about their place.
RunPlan shallower_plan(const RunPlan& plan, const Options& options, const Arrangement& arrangement);

// Seconds of a step of each plan, the median over some seconds: allocates the plans whole, draws tokens, trains them in
// turn, some steps each, and frees all. The plans' devices are idle.
std::vector<double> measure_steps(const std::vector<const RunPlan*>& plans);
inline double measure_step(const RunPlan& plan) { return measure_steps({&plan})[0]; }
// A step of `plan` over one of `other`, in the same way: the median of what they are round by round, since a machine is
// not always equally fast.
double measure_ratio(const RunPlan& plan, const RunPlan& other);

}  // namespace l2l::runtime
