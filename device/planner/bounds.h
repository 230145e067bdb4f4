// What no plan can be smaller than.
#pragma once

#include "device/planner/problem.h"

namespace l2l::device::planner {

// One stream: the largest sum of sizes alive at once. Takes a problem that check() accepts.
Bytes live_load(const Problem& problem);

}  // namespace l2l::device::planner
