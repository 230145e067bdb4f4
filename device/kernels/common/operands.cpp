#include "device/kernels/common/operands.h"

namespace l2l::device::kernels {

void OpView::require_dtype(DType dtype, std::initializer_list<std::size_t> positions) const {
  for (const std::size_t position : positions) {
    const compiler::Value& value = operand(position);
    if (value.dtype == dtype) continue;
    throw BadInput(std::string(compiler::name_of(kind)) + ": value '" + value.name + "' is " +
                   std::string(name_of(value.dtype)) + ", the host kernel needs " + std::string(name_of(dtype)));
  }
}

}  // namespace l2l::device::kernels
