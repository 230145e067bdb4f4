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

// Throws BadInput unless a device that is `tensor` of its group has this share, of all devices or, of what is
// exchanged, of as many neighbours.
void require_share(const compiler::Op& op, const TensorMember& tensor) {
  const compiler::Shard& shard = op.attributes.shard;
  if (shard.count == 1) return;
  const int members = tensor.group ? tensor.group->members() : 1;
  const bool exchanges =
      op.kind == compiler::OpKind::all_gather_rows || op.kind == compiler::OpKind::reduce_scatter_rows;
  if (shard.count == members && shard.index == tensor.index) return;
  if (exchanges && members % shard.count == 0 && shard.index == tensor.index % shard.count) return;
  throw BadInput("share " + std::to_string(shard.index) + " of " + std::to_string(shard.count) +
                 " on a device that is number " + std::to_string(tensor.index) + " of " + std::to_string(members));
}

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
