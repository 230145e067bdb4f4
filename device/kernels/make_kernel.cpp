#include <array>

#include "device/kernels/factories.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {
namespace {

// By OpKind.
constexpr std::array kFactories = {
#define L2L_OP(kind) &make_##kind,
#define L2L_FUSED_OP(kind) &make_fused,
#include "compiler/ir/ops.def"
#undef L2L_OP
#undef L2L_FUSED_OP
};

}  // namespace

std::unique_ptr<Kernel> make_kernel(const compiler::Graph& graph, std::size_t index, const TensorMember& tensor) {
  const compiler::Op& op = graph.ops.at(index);
  try {
    require_share(op, tensor);
    return (*kFactories.at(static_cast<std::size_t>(op.kind)))({graph, op, &tensor});
  } catch (const BadInput& error) {
    throw BadInput(graph.name + ", op " + std::to_string(index) + ": " + error.what());
  }
}

}  // namespace l2l::device::kernels
