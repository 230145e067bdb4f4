#include "device/kernels/common/operands.h"

namespace l2l::device::kernels {

void require_dtype(const compiler::Graph& graph, const compiler::Op& op, DType dtype,
                   std::initializer_list<std::size_t> positions) {
  for (const std::size_t position : positions) {
    const bool is_input = position < op.inputs.size();
    const compiler::Value& value =
        is_input ? input(graph, op, position) : output(graph, op, position - op.inputs.size());
    if (value.dtype == dtype) continue;
    throw BadInput(std::string(compiler::name_of(op.kind)) + ": value '" + value.name + "' is " +
                   std::string(name_of(value.dtype)) + ", the host kernel needs " + std::string(name_of(dtype)));
  }
}

float rounded_to(DType dtype, float value) {
  if (dtype == DType::f32) return value;
  return dtype == DType::bf16 ? to_float(to_bf16(value)) : to_float(to_f16(value));
}

}  // namespace l2l::device::kernels
