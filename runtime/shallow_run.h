// Steps of a model with fewer blocks than the one that is planned: what cores and caches that all share cost the pieces
// of a step shows only when they run beside each other.
#pragma once

#include "runtime/run_plan.h"

namespace l2l::runtime {

// Half the blocks, and of large ones fewer (about 1 GiB of state), on a host device; alike in all else. Without data.
Options shallower(const RunPlan& plan);

// Seconds of a step, the median over some seconds: allocates the whole plan, draws tokens, trains, and frees all.
double measure_step(const RunPlan& plan);

}  // namespace l2l::runtime
