// What matmul and matmul_gelu share.
#pragma once

#include "device/cuda/matmul_plan.h"
#include "device/graph/graph.h"

namespace l2l::device::cuda {

// The product of a matmul or matmul_gelu: inputs a and b, output y.
MatmulShape matmul_shape(const graph::Graph& graph, const graph::Op& op);

}  // namespace l2l::device::cuda
