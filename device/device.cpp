#include "device/device.h"

#include <cassert>
#include <string>
#include <utility>

#include "compiler/ir/exchanges.h"
#include "l2l/errors.h"

namespace l2l::device {
namespace {

std::byte* address(const Bindings& bindings, const compiler::Operand& operand) {
  return bindings[operand.region].data + operand.offset;
}

}  // namespace

BufferView BufferView::slice(Bytes offset, Bytes bytes) const {
  assert(offset <= size && bytes <= size - offset);
  return {data + offset, bytes};
}

void require_same_size(BufferView destination, BufferView source) {
  if (destination.size == source.size) return;
  throw Error("copy: " + std::to_string(source.size) + " bytes into " + std::to_string(destination.size));
}

Executable::Executable(compiler::Program program)
    : program_(std::move(program)), received_bytes_(compiler::received_bytes(program_.graph)) {
  for (const compiler::Launch& launch : program_.launches) {
    if (launch.operands.size() <= kMostOperands) continue;
    throw Error(program_.graph.name + ": " + std::string(name_of(launch.op.kind)) + " has more than " +
                std::to_string(kMostOperands) + " operands");
  }
  for (std::size_t i = 0; i < region_bytes_.size(); ++i) {
    const auto region = static_cast<compiler::Region>(i);
    region_bytes_[i] =
        region == compiler::Region::scratch ? program_.scratch_bytes : program_.graph.region_bytes(region);
  }
}

void Executable::require_kernels(std::size_t count) const {
  if (program_.launches.size() != count) throw Error(program_.graph.name + ": launches and ops differ in number");
}

void Executable::check(const Bindings& bindings) const {
  for (std::size_t i = 0; i < region_bytes_.size(); ++i) {
    if (bindings.regions[i].size >= region_bytes_[i]) continue;
    throw Error(program_.graph.name + ": region " + std::string(name_of(static_cast<compiler::Region>(i))) + " needs " +
                std::to_string(region_bytes_[i]) + " bytes, " + std::to_string(bindings.regions[i].size) +
                " are bound");
  }
}

Executable::Arguments Executable::arguments_of(const compiler::Launch& launch, const Bindings& bindings) {
  Arguments arguments{{}, launch.operands.size(), nullptr};
  for (std::size_t i = 0; i < arguments.count; ++i) arguments.addresses[i] = address(bindings, launch.operands[i]);
  if (launch.workspace_bytes > 0) arguments.workspace = address(bindings, launch.workspace);
  return arguments;
}

void Device::copy_rows(Stream& stream, const RowCopy& rows) {
  for (Bytes i = 0; i < rows.rows; ++i) {
    copy(stream, {rows.destination + i * rows.destination_stride, rows.row},
         {const_cast<std::byte*>(rows.source) + i * rows.source_stride, rows.row});
  }
}

void Device::join(const TensorMember&) { throw BadInput(description() + ": layers are not split over such devices"); }

}  // namespace l2l::device
