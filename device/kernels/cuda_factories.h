// The CUDA kernels: one function per op of compiler/ir/ops.def, each defined in the .cu file named after the op.
#pragma once

#include "device/kernels/common/cuda_kernel.h"

namespace l2l::device::cuda {

// Throws BadInput when the op's dtypes or shapes have no kernel.
using Factory = std::unique_ptr<Kernel>(const Context& context, const compiler::Graph& graph, const compiler::Op& op);

#define L2L_OP(kind) Factory make_##kind;
#define L2L_FUSED_OP(kind) Factory make_##kind;
#include "compiler/ir/ops.def"
#undef L2L_OP
#undef L2L_FUSED_OP

}  // namespace l2l::device::cuda
