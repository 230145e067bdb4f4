// The host's kernels: one factory per op of compiler/ir/ops.def, each defined in the file named after the op, those
// of the norms in norm.cpp and norm_backward.cpp, add_positions in embedding.cpp.
#pragma once

#include <memory>

#include "device/kernels/common/operands.h"
#include "device/kernels/kernel.h"

namespace l2l::device::kernels {

// Throws BadInput when the op's dtypes or shapes have no kernel.
using Factory = std::unique_ptr<Kernel> (*)(const OpView& op);

#define L2L_OP(kind) extern const Factory make_##kind;
#define L2L_FUSED_OP(kind)
#include "compiler/ir/ops.def"
#undef L2L_OP
#undef L2L_FUSED_OP
// All fused ops: runs the ops that unfused() gives, one after the other.
extern const Factory make_fused;

// The factory of a kernel class that is made from its op alone.
template <typename KernelClass>
std::unique_ptr<Kernel> make_one(const OpView& op) {
  return std::make_unique<KernelClass>(op);
}

}  // namespace l2l::device::kernels
