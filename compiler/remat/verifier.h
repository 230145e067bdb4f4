// Checks by symbolic execution that planned programs of a layer compute what its graph defines. Each range of memory
// holds a symbol: the op that wrote it, applied to the symbols that the op read. This detects values that are dropped
// too early, overwritten, recomputed from something else or summed in another order. Shares no code with the policies,
// the stager and the memory planner.
#pragma once

#include <string>

#include "compiler/memory/program.h"

namespace l2l::compiler::remat {

// Runs `forward`, then `backward`, which reads what the former left in Region::saved. Returns an empty string if
// output, loss, input gradient and gradients are those that `layer` and differentiate(layer) define; otherwise what is
// wrong, naming the op. The programs must not contain fused ops.
std::string verify(const Graph& layer, const Program& forward, const Program& backward);

}  // namespace l2l::compiler::remat
