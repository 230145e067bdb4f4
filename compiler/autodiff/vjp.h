// Vector-Jacobian products, one per differentiable op kind.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::compiler {

class Backward;

// Reads the gradient of the first output of `op` and appends the ops that carry it to the inputs; to parameters first,
// so that the gradient dies with the op.
using VectorJacobianProduct = void(Backward& backward, const Op& op);

// nullptr: ops of this kind have no derivative.
VectorJacobianProduct* vjp_of(OpKind kind);

}  // namespace l2l::compiler
