// What matmul and matmul_gelu share.
#pragma once

#include "device/cuda/matmul_plan.h"
#include "compiler/ir/graph.h"

namespace l2l::device::cuda {

// The product of a matmul or matmul_gelu: inputs a and b, output y.
MatmulShape matmul_shape(const compiler::Graph& graph, const compiler::Op& op);

}  // namespace l2l::device::cuda
