// Repeating, summing and permuting values of up to eight dimensions by ops of four (compiler/ir/ops.def): neighbouring
// dimensions that are treated alike are one, and what then still has more than four is done in several ops.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "core/shape.h"

namespace l2l::models {

// Each takes x, the elements of `shape` in rows of any length, and returns those of the result in rows of its last
// dimension.

// `shape` repeated to `all`, which has its dimensions but for some of 1, and may have more in front; x may be a
// parameter.
compiler::ValueId repeat(compiler::GraphBuilder& graph, compiler::ValueId x, const Shape& shape, const Shape& all);

// `factor` times the sums over the dimensions that are `summed`, one flag for each, which become 1.
compiler::ValueId sum(compiler::GraphBuilder& graph, compiler::ValueId x, const Shape& shape,
                      const std::vector<bool>& summed, float factor);

// Dimension i of the result is dimension axes[i].
compiler::ValueId permute(compiler::GraphBuilder& graph, compiler::ValueId x, const Shape& shape,
                          const std::vector<int>& axes);

}  // namespace l2l::models
