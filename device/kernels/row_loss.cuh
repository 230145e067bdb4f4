// Losses of rows of one number: squared errors, and the cross entropy over the choices of each question. One block
// computes them: labelled rows are few.
#pragma once

#include <cmath>
#include <limits>

#include "core/choice_target.h"
#include "device/kernels/common/convert.cuh"
#include "device/kernels/common/cuda_kernel.h"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/operands.h"

namespace l2l::device::cuda {

inline constexpr int kRowLossThreads = 256;

struct SquaredError {
  using Target = float;

  // The loss of what begins at `row`; writes its gradient to dy.
  template <typename T>
  static __device__ double at(std::int64_t row, std::int64_t, const T* y, const float* targets, T* dy, float scale) {
    const float error = isnan(targets[row]) ? 0.0f : widen(y[row]) - targets[row];
    if (dy != nullptr) dy[row] = narrow<T>(2.0f * error * scale);
    return static_cast<double>(error) * static_cast<double>(error);
  }
};

struct ChoiceCrossEntropy {
  using Target = std::int32_t;

  template <typename Take>
  static __device__ void for_choices(std::int64_t first, std::int64_t rows, const std::int32_t* targets,
                                     const Take& take) {
    const std::int32_t choices = targets[first] / 256;
    std::int32_t choice = 0;
    for (std::int64_t row = first; row < rows && choice < choices; ++row) {
      if (row == first || targets[row] == kFurtherChoice) take(choice++, row);
    }
  }

  // A row that begins no question has no loss; the gradient of a further choice is written by the question's first.
  template <typename T>
  static __device__ double at(std::int64_t row, std::int64_t rows, const T* scores, const std::int32_t* targets,
                              T* dscores, float scale) {
    if (targets[row] < 0) {
      if (dscores != nullptr && targets[row] != kFurtherChoice) dscores[row] = narrow<T>(0.0f);
      return 0;
    }
    const std::int32_t right = targets[row] % 256;
    float highest = -INFINITY, chosen = 0, sum = 0;
    for_choices(row, rows, targets, [&](std::int32_t choice, std::int64_t at) {
      highest = fmaxf(highest, widen(scores[at]));
      if (choice == right) chosen = widen(scores[at]);
    });
    for_choices(row, rows, targets, [&](std::int32_t, std::int64_t at) { sum += expf(widen(scores[at]) - highest); });
    if (dscores != nullptr) {
      for_choices(row, rows, targets, [&](std::int32_t choice, std::int64_t at) {
        const float share = expf(widen(scores[at]) - highest) / sum;
        dscores[at] = narrow<T>((share - (choice == right ? 1.0f : 0.0f)) * scale);
      });
    }
    return static_cast<double>(highest - chosen) + log(static_cast<double>(sum));
  }
};

// Each thread sums its rows in ascending order, then the sums are added in a fixed tree.
template <typename Loss, typename T>
__global__ void row_loss(const T* y, const typename Loss::Target* targets, std::int64_t rows, double* loss, T* dy,
                         const LaunchParameters* parameters) {
  __shared__ double sums[kRowLossThreads];
  double sum = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += kRowLossThreads) {
    sum += Loss::at(row, rows, y, targets, dy, parameters->loss_scale);
  }
  sums[threadIdx.x] = sum;
  for (int half = kRowLossThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *loss = sums[0];
}

template <typename Loss, bool gradient>
struct RowLoss {
  template <typename T>
  class OfType final : public Kernel {
   public:
    OfType(const Context&, const OpView& op) : rows_(op.input(0).shape[0]) {}

    void enqueue(Operands operands, std::byte*, const LaunchParameters* parameters,
                 cudaStream_t stream) const override {
      T* const dy = gradient ? as<T>(operands[3]) : nullptr;
      launch("row_loss", row_loss<Loss, T>, {dim3(1), dim3(kRowLossThreads)}, stream, as<const T>(operands[0]),
             as<const typename Loss::Target>(operands[1]), rows_, as<double>(operands[2]), dy, parameters);
    }

   private:
    std::int64_t rows_;
  };
};

}  // namespace l2l::device::cuda
