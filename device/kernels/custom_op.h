// What the kernels of a program's own op share: rows in fp32, some at a time.
#pragma once

#include <algorithm>
#include <exception>
#include <string>

#include "core/failure.h"
#include "core/model_layout.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "l2l/custom_op.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {

// The op, and its sizes. `x`, `y`, `parameters`: positions of its operands.
struct CustomRows {
  std::shared_ptr<const CustomOp> op;
  std::uint32_t rng_op;
  std::int64_t rows, columns, result_columns, parameters;

  CustomRows(const OpView& view, std::size_t x, std::size_t y, std::size_t parameters_at)
      : op(view.attributes.custom.op),
        rng_op(view.attributes.rng_op),
        rows(view.operand(x).shape[0]),
        columns(view.operand(x).shape[1]),
        result_columns(view.operand(y).shape[1]),
        parameters(view.inputs.size() > parameters_at ? view.input(parameters_at).shape.elements() : 0) {}

  // Blocks that one call takes: by shape alone.
  Partition blocks(std::int64_t of_rows) const { return row_blocks(of_rows, std::max(columns, result_columns)); }
};

inline DrawPlace place_of(const LaunchParameters& parameters) {
  return {parameters.seed, parameters.step, parameters.layer, parameters.microbatch, parameters.training};
}

// Calls a function of the op, and names op and layer, one of model.blocks, where it throws what is no Error.
template <typename Call>
void call_own(const CustomOp& op, const LaunchParameters& launch, const Call& call) {
  try {
    call();
  } catch (const Error&) {
    throw;
  } catch (...) {
    const std::string layer = (launch.layer & kFurtherUse) != 0
                                  ? "a layer in a further use"
                                  : "layer " + std::to_string(launch.layer - kFirstBlockId);
    std::throw_with_nested(Error("custom op \"" + op.name + "\" of " + layer + ": " + message_of_current_exception()));
  }
}

// `count` numbers in fp32: themselves, or a copy in `room`.
template <typename T>
std::span<const float> in_fp32(const T* numbers, float* room, std::int64_t count) {
  if constexpr (std::is_same_v<T, float>) return {numbers, static_cast<std::size_t>(count)};
  widen_row(numbers, room, count);
  return {room, static_cast<std::size_t>(count)};
}

inline std::span<float> span_of(float* numbers, std::int64_t count) {
  return {numbers, static_cast<std::size_t>(count)};
}

}  // namespace l2l::device::kernels
