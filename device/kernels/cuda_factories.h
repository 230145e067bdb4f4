// The CUDA kernels: one factory per op of compiler/ir/ops.def, each defined in the .cu file named after the
// op or after the one that a fused op extends, those of the norms in norm.cu and norm_backward.cu, add_positions in
// embedding.cu.
#pragma once

#include "device/kernels/common/cuda_kernel.h"

namespace l2l::device::cuda {

// Throws BadInput when the op's dtypes or shapes have no kernel.
using Factory = std::unique_ptr<Kernel> (*)(const Context& context, const OpView& op);

#define L2L_OP(kind) extern const Factory make_##kind;
#define L2L_FUSED_OP(kind) extern const Factory make_##kind;
#include "compiler/ir/ops.def"
#undef L2L_OP
#undef L2L_FUSED_OP

// The factory of a kernel class that is made from its op alone.
template <typename KernelClass>
std::unique_ptr<Kernel> make_one(const Context& context, const OpView& op) {
  return std::make_unique<KernelClass>(context, op);
}

}  // namespace l2l::device::cuda
