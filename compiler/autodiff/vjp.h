// Vector-Jacobian products of the differentiable op kinds.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::compiler {

class Backward;

// Appends the ops that propagate the gradient of the first output of `op` to its inputs; to parameters first, so that
// the gradient can be freed early.
using VectorJacobianProduct = void(Backward& backward, const Op& op);

// nullptr if ops of this kind have no derivative.
VectorJacobianProduct* vjp_of(OpKind kind);

}  // namespace l2l::compiler
