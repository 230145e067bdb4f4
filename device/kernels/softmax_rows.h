// Softmax of one row on the host.
#pragma once

#include "device/kernels/convert.h"
#include "device/kernels/reduce.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {

// One line of `columns` fp32 numbers for each worker.
struct WorkerLines {
  std::int64_t columns;

  std::int64_t stride() const { return (columns + 15) / 16 * 16; }
  Bytes workspace(int threads) const { return static_cast<Bytes>(threads * stride()) * sizeof(float); }
  float* of(std::byte* workspace, int slot) const { return as<float>(workspace) + slot * stride(); }
};

// e^x, and 0 where fast_exp() stops at a small number. NaNs stay NaNs.
inline __attribute__((always_inline)) float exp_or_zero(float x) {
  const float value = fast_exp(x);
  return x < -87.0f ? 0.0f : value;
}

struct SoftmaxOfRow {
  float largest, sum;  // of the logits; of exp(logit - largest)
};

// Writes x in fp32 to `line`.
template <typename T>
SoftmaxOfRow softmax_of_row(const T* x, std::int64_t count, float* line) {
  widen_row(x, line, count);
  const float largest = largest_of(line, count);
  return {largest, sum_of(count, [=](std::int64_t i) { return exp_or_zero(line[i] - largest); })};
}

}  // namespace l2l::device::kernels
