// Squared errors of rows of one number, on the host.
#pragma once

#include <cmath>

#include "device/kernels/common/operands.h"
#include "device/kernels/convert.h"
#include "device/kernels/kernel.h"

namespace l2l::device::kernels {

// Sums in ascending order of row. With a gradient: operands y, targets, loss, dy.
template <bool gradient>
struct SquaredError {
  template <typename T>
  class OfType final : public Kernel {
   public:
    OfType(const OpView& op) : rows_(op.input(0).shape[0]) {
      op.require_dtype(DType::f32, {1});
      op.require_dtype(DType::f64, {2});
    }

    void run(Operands operands, std::byte*, const LaunchParameters& parameters, Workers&) const override {
      const T* y = as<T>(operands[0]);
      const float* targets = as<float>(operands[1]);
      double sum = 0;
      for (std::int64_t row = 0; row < rows_; ++row) {
        const float error = std::isnan(targets[row]) ? 0 : widen(y[row]) - targets[row];
        sum += static_cast<double>(error) * static_cast<double>(error);
        if constexpr (gradient) as<T>(operands[3])[row] = narrow<T>(2 * error * parameters.loss_scale);
      }
      *as<double>(operands[2]) = sum;
    }

   private:
    std::int64_t rows_;
  };
};

}  // namespace l2l::device::kernels
