// The sum of what a program computed as the losses of samples.
#pragma once

#include "device/kernels/row_loss.cuh"

namespace l2l::device::cuda {

// For RowLoss. Samples whose count is 0 are padding.
struct SampleLoss {
  using Target = std::int32_t;

  template <typename T>
  static __device__ double at(std::int64_t row, std::int64_t, const T* parts, const std::int32_t* counts, T* dparts,
                              float scale) {
    const bool counted = counts[row] != 0;
    if (dparts != nullptr) dparts[row] = narrow<T>(counted ? scale : 0.0f);
    return counted ? static_cast<double>(widen(parts[row])) : 0.0;
  }
};

}  // namespace l2l::device::cuda
