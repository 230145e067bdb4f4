#include <string>

#include "device/kernels/cuda_factories.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

Factory factory_of(compiler::OpKind kind) {
  switch (kind) {
#define L2L_OP(kind)           \
  case compiler::OpKind::kind: \
    return make_##kind;
#define L2L_FUSED_OP(kind)     \
  case compiler::OpKind::kind: \
    return make_##kind;
#include "compiler/ir/ops.def"
#undef L2L_OP
#undef L2L_FUSED_OP
    case compiler::OpKind::count:
      break;
  }
  throw Error("make_kernel: no op of kind " + std::to_string(static_cast<int>(kind)));
}

}  // namespace

std::unique_ptr<Kernel> make_kernel(const Context& context, const compiler::Graph& graph, std::size_t index) {
  const compiler::Op& op = graph.ops.at(index);
  const std::string where = graph.name + ", op " + std::to_string(index) + " (" + std::string(name_of(op.kind)) + ")";
  try {
    return factory_of(op.kind)(context, {graph, op});
  } catch (const BadInput& error) {
    throw BadInput(where + ": " + error.what());
  }
}

}  // namespace l2l::device::cuda
