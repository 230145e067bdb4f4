// Steps of a model with fewer blocks than the one that is planned: what cores and caches that all share cost the pieces
// of a step shows only when they run beside each other.
#pragma once

#include "runtime/plan/run_plan.h"
#include "runtime/tuning/step_costs.h"

namespace l2l::runtime {

// Half the blocks, and of large ones fewer (about `state` bytes of state), on a host device, without files, and without
// limits of memory but the machine's; alike in all else.
Options shallower(const RunPlan& plan, Bytes state = Bytes{1} << 30);
// With blocks that keep their inputs alone, on the host, unless they rebuild these.
Options with_plain_blocks(Options options);
// The plan of `options`, as of shallower(), in which blocks do what `arrangement`, made for the whole model, says at
// about their place.
RunPlan shallower_plan(const RunPlan& plan, const Options& options, const Arrangement& arrangement);

// Seconds of a step, the median over some seconds: allocates the plan whole, draws tokens, trains it, and frees all.
// Its devices must be idle.
double measure_step(const RunPlan& plan);

// A step over another run's.
struct StepRatio {
  double value;  // the median over rounds, of the fastest steps in each
  double noise;  // by which two such ratios of runs that are equal differ, relative: about the standard error
};

struct StepPair {
  double seconds;   // of a step of the first
  StepRatio ratio;  // over the second
};
// The same of two plans that train in turn, some steps each, since a machine is not always equally fast. Quick: some
// seconds. Thorough: three times as long, for plans that are close.
StepPair measure_pair(const RunPlan& first, const RunPlan& second, Effort effort = Effort::quick);

}  // namespace l2l::runtime
