#include <array>
#include <string>

#include "device/kernels/cuda_factories.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

// By OpKind.
constexpr std::array kFactories = {
#define L2L_OP(kind) &make_##kind,
#define L2L_FUSED_OP(kind) &make_##kind,
#include "compiler/ir/ops.def"
#undef L2L_OP
#undef L2L_FUSED_OP
};

}  // namespace

std::unique_ptr<Kernel> make_kernel(const Context& context, const compiler::Graph& graph, std::size_t index,
                                    const TensorMember& tensor) {
  const compiler::Op& op = graph.ops.at(index);
  const std::string where = graph.name + ", op " + std::to_string(index) + " (" + std::string(name_of(op.kind)) + ")";
  try {
    kernels::require_share(op, tensor);
    return (*kFactories.at(static_cast<std::size_t>(op.kind)))(context, {graph, op, &tensor});
  } catch (const BadInput& error) {
    throw BadInput(where + ": " + error.what());
  }
}

}  // namespace l2l::device::cuda
