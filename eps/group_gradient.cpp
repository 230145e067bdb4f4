#include "eps/group_gradient.h"

#include <cstdint>

#include "optimizers/squares.h"

namespace l2l::eps {
namespace {

float widen(bf16 value) { return to_float(value); }
float widen(f16 value) { return to_float(value); }
float widen(float value) { return value; }

template <typename T>
void form_sum(const Contributions& contributions, std::int64_t begin, std::span<float> sum) {
  float* const to = sum.data();
  const std::size_t count = sum.size();
  for (std::size_t i = 0; i < contributions.data.size(); ++i) {
    const T* const from = reinterpret_cast<const T*>(contributions.data[i]) + begin;
    if (i == 0) {
#pragma omp simd
      for (std::size_t k = 0; k < count; ++k) to[k] = widen(from[k]);
    } else {
#pragma omp simd
      for (std::size_t k = 0; k < count; ++k) to[k] += widen(from[k]);
    }
  }
}

// The sum over [begin, begin + count), in place where it needs no arithmetic, else in `buffer`.
std::span<const float> gradient_sum(const Contributions& contributions, std::int64_t begin, std::size_t count,
                                    ChunkBuffer& buffer) {
  if (contributions.type == DType::f32 && contributions.data.size() == 1) {
    return {reinterpret_cast<const float*>(contributions.data[0]) + begin, count};
  }
  const std::span<float> sum(buffer.data(), count);
  if (contributions.type == DType::bf16) {
    form_sum<bf16>(contributions, begin, sum);
  } else if (contributions.type == DType::f16) {
    form_sum<f16>(contributions, begin, sum);
  } else {
    form_sum<float>(contributions, begin, sum);
  }
  return sum;
}

std::span<const float> scaled(std::span<const float> values, float factor, ChunkBuffer& buffer) {
  if (factor == 1) return values;
  const float* const from = values.data();
  float* const to = buffer.data();
  const std::size_t count = values.size();
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i] * factor;
  return {to, count};
}

}  // namespace

std::span<const float> gradient(const Contributions& contributions, float factor, std::int64_t begin, std::size_t count,
                                ChunkBuffer& buffer) {
  return scaled(gradient_sum(contributions, begin, count, buffer), factor, buffer);
}

double sum_of_squares(const GroupMemory& memory, const Contributions& contributions, Workers& workers,
                      std::span<double> block_sums) {
  const std::int64_t blocks = memory.blocks();
  workers.parallel_for(blocks, [&](std::int64_t block, int) {
    ChunkBuffer buffer;
    double sum = 0;
    memory.for_each_chunk(block, [&](std::int64_t begin, std::size_t count, std::size_t) {
      sum += optimizers::sum_of_squares(gradient_sum(contributions, begin, count, buffer));
    });
    block_sums[static_cast<std::size_t>(block)] = sum;
  });
  double total = 0;
  for (std::int64_t block = 0; block < blocks; ++block) total += block_sums[static_cast<std::size_t>(block)];
  return total;
}

}  // namespace l2l::eps
