// What matmul and matmul_gelu share.
#pragma once

#include "compiler/ir/graph.h"
#include "device/kernels/matmul_plan.h"

namespace l2l::device::cuda {

// The product of a matmul or matmul_gelu: inputs a and b, output y.
MatmulShape matmul_shape(const compiler::Graph& graph, const compiler::Op& op);

}  // namespace l2l::device::cuda
