// Whether the two programs of a layer's visits, as they were planned, compute what the layer's plain programs compute.
// Both are run on symbols: what lies in each range of memory is the op that wrote it there and what that read. So a
// value that was dropped too early, overwritten, recomputed from something else or summed in another order shows,
// whatever made the programs. Shares no code with policies, stager and planner.
#pragma once

#include <string>

#include "compiler/memory/program.h"

namespace l2l::compiler::remat {

// Nothing where `forward` and `backward` leave output, input gradient and gradients as `layer` and differentiate(layer)
// define them, the latter reading what the former left in Region::saved; else what is wrong, naming the op. Programs of
// graphs without fused ops.
std::string verify(const Graph& layer, const Program& forward, const Program& backward);

}  // namespace l2l::compiler::remat
