// The loss of samples whose parts a program computed itself, on the host.
#pragma once

#include "device/kernels/common/operands.h"
#include "device/kernels/convert.h"
#include "device/kernels/kernel.h"

namespace l2l::device::kernels {

// Sums in ascending order of sample. With a gradient: operands parts, counts, loss, dparts.
template <bool gradient>
struct SampleLoss {
  template <typename T>
  class OfType final : public Kernel {
   public:
    OfType(const OpView& op) : samples_(op.input(0).shape[0]) {
      op.require_dtype(DType::i32, {1});
      op.require_dtype(DType::f64, {2});
      if (gradient) op.require_dtype(op.input(0).dtype, {3});
    }

    void run(Operands operands, std::byte*, const LaunchParameters& parameters, Workers&) const override {
      const T* const parts = as<T>(operands[0]);
      const std::int32_t* const counts = as<std::int32_t>(operands[1]);
      double sum = 0;
      for (std::int64_t sample = 0; sample < samples_; ++sample) {
        const bool counted = counts[sample] != 0;
        if (counted) sum += static_cast<double>(widen(parts[sample]));
        if constexpr (gradient) as<T>(operands[3])[sample] = narrow<T>(counted ? parameters.loss_scale : 0.0f);
      }
      *as<double>(operands[2]) = sum;
    }

   private:
    std::int64_t samples_;
  };
};

}  // namespace l2l::device::kernels
