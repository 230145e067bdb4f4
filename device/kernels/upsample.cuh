// Images that are made larger, on CUDA.
#pragma once

#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/interpolation.h"

namespace l2l::device::cuda {

// Base of the bodies whose rows are points of an image [N, height, width, C], or of the larger one.
template <typename T>
struct UpsamplingBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  kernels::InterpolatedSide height, width;

  explicit UpsamplingBody(const OpView& op) : ElementwiseBody(op), height(op.attributes, 0), width(op.attributes, 1) {
    columns = op.output(0).shape[1];
  }

  struct Point {
    std::int64_t sample;
    std::int32_t y, x;
  };
  __device__ static Point point(std::int64_t row, std::int32_t rows, std::int32_t across) {
    const std::int64_t line = row / across;
    return {line / rows, static_cast<std::int32_t>(line % rows), static_cast<std::int32_t>(row % across)};
  }
};

}  // namespace l2l::device::cuda
