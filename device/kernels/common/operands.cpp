#include "device/kernels/common/operands.h"

#include "device/tensor_group.h"

namespace l2l::device::kernels {

void OpView::require_dtype(DType dtype, std::initializer_list<std::size_t> positions) const {
  for (const std::size_t position : positions) {
    const compiler::Value& value = operand(position);
    if (value.dtype == dtype) continue;
    throw BadInput(std::string(compiler::name_of(kind)) + ": value '" + value.name + "' is " +
                   std::string(name_of(value.dtype)) + ", its kernel needs " + std::string(name_of(dtype)));
  }
}

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

}  // namespace l2l::device::kernels
