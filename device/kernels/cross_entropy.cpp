#include "device/kernels/cross_entropy.h"

#include <cmath>

#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {

MatmulShape logits_shape(std::int64_t rows, std::int64_t vocabulary, std::int64_t hidden, DType dtype) {
  MatmulShape shape;
  shape.m = rows;
  shape.n = vocabulary;
  shape.k = hidden;
  shape.input = dtype;
  shape.output = DType::f32;
  shape.transpose_b = true;
  return shape;
}

RowLoss row_loss(const float* logits, std::int64_t vocabulary, std::int64_t target) {
  float highest = logits[0];
#pragma omp simd reduction(max : highest)
  for (std::int64_t i = 0; i < vocabulary; ++i) highest = logits[i] > highest ? logits[i] : highest;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < vocabulary; ++i) sum += fast_exp(logits[i] - highest);
  const double logsumexp = static_cast<double>(highest) + std::log(static_cast<double>(sum));
  return {logsumexp - static_cast<double>(logits[target]), highest, sum};
}

}  // namespace l2l::device::kernels
