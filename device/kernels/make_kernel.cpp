#include "device/kernels/factories.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {
namespace {

Factory factory_of(compiler::OpKind kind) {
  switch (kind) {
#define L2L_OP(kind)           \
  case compiler::OpKind::kind: \
    return make_##kind;
#define L2L_FUSED_OP(kind)     \
  case compiler::OpKind::kind: \
    return make_fused;
#include "compiler/ir/ops.def"
#undef L2L_OP
#undef L2L_FUSED_OP
    case compiler::OpKind::count:
      break;
  }
  throw Error("make_kernel: no op of kind " + std::to_string(static_cast<int>(kind)));
}

}  // namespace

std::unique_ptr<Kernel> make_kernel(const compiler::Graph& graph, std::size_t index) {
  const compiler::Op& op = graph.ops.at(index);
  try {
    return factory_of(op.kind)({graph, op});
  } catch (const BadInput& error) {
    throw BadInput(graph.name + ", op " + std::to_string(index) + ": " + error.what());
  }
}

}  // namespace l2l::device::kernels
