// The host's kernels: one function per op of compiler/ir/ops.def, each defined in the file named after the op.
#pragma once

#include <memory>

#include "device/kernels/kernel.h"

namespace l2l::device::kernels {

// Throws BadInput when the op's dtypes or shapes have no kernel.
using Factory = std::unique_ptr<Kernel>(const compiler::Graph& graph, const compiler::Op& op);

#define L2L_OP(kind) Factory make_##kind;
#define L2L_FUSED_OP(kind)
#include "compiler/ir/ops.def"
#undef L2L_OP
#undef L2L_FUSED_OP
// All fused ops: runs the ops that unfused() gives, one after the other.
Factory make_fused;

}  // namespace l2l::device::kernels
