// recompute.policy = "auto" and recompute.budget: what blocks keep, where, and what they recompute, chosen by what ops
// and copies take on this machine and by the memory there is.
#pragma once

#include "runtime/block_chain.h"

namespace l2l::runtime {

// "auto": each block gets one of several programs (keep all, nothing, the smallest cut, and what knapsacks over the
// values take) and a place for its stash, and its weights stay on the device or not, so that the step is predicted to
// be shortest within device memory, the limit of the stash, and the time that the link has left beside weights and
// gradients. With recompute.budget, the scratch of each block's backward visit is capped (device/recompute/stage.h),
// whatever the policy keeps.
// Of several `micro_batches` (sequences), all possible, the one whose step is predicted to be shortest is written to
// `options`.
// `devices`, idle, are lent for the measurement, which takes some seconds for a shape that the calibration has not;
// figures are kept there. Throws OutOfMemory when nothing fits, and BadInput.
Arrangement choose_arrangement(Options& options, Devices& devices, const std::vector<std::int64_t>& micro_batches);

}  // namespace l2l::runtime
