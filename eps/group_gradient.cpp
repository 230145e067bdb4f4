#include "eps/group_gradient.h"

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

namespace l2l::eps {
namespace {

using ChunkBuffer = std::array<float, kChunk>;

float widen(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
float widen(float value) { return value; }

// Element `begin` of the group.
template <typename T>
const T* element(const Contribution& contribution, std::int64_t begin) {
  return reinterpret_cast<const T*>(contribution.data) + (begin - contribution.begin);
}

bool covers(const Contribution& contribution, std::int64_t begin) {
  return contribution.begin <= begin && begin < contribution.end;
}

template <typename T>
void form_sum(const Contributions& contributions, std::int64_t begin, std::span<float> sum) {
  float* const to = sum.data();
  const std::size_t count = sum.size();
  bool first = true;
  for (const Contribution& contribution : contributions.parts) {
    if (!covers(contribution, begin)) continue;
    const T* const from = element<T>(contribution, begin);
    if (std::exchange(first, false)) {
#pragma omp simd
      for (std::size_t k = 0; k < count; ++k) to[k] = widen(from[k]);
    } else {
#pragma omp simd
      for (std::size_t k = 0; k < count; ++k) to[k] += widen(from[k]);
    }
  }
}

// The gradient of [begin, begin + count), which no cut divides, in place where it needs no arithmetic, else in
// `buffer`.
std::span<const float> gradient(const Contributions& contributions, std::int64_t begin, std::size_t count,
                                ChunkBuffer& buffer) {
  if (contributions.type == DType::f32 && contributions.parts.size() == 1) {
    return {element<float>(contributions.parts[0], begin), count};
  }
  const std::span<float> sum(buffer.data(), count);
  if (contributions.type == DType::bf16) {
    form_sum<std::uint16_t>(contributions, begin, sum);
  } else {
    form_sum<float>(contributions, begin, sum);
  }
  return sum;
}

// In sixteen fixed lanes. The square of an fp32 number is exact in double, and no sum of them overflows.
double sum_of_squares(std::span<const float> values) {
  constexpr std::size_t kLanes = 16;
  double lanes[kLanes] = {};
  const float* const from = values.data();
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = from[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    const double value = from[i];
    lanes[i - whole] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
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

double sum_of_squares(const GroupMemory& memory, const Contributions& contributions, Workers& workers,
                      std::span<double> block_sums) {
  const std::int64_t blocks = memory.blocks();
  workers.parallel_for(blocks, [&](std::int64_t block, int) {
    ChunkBuffer buffer;
    double sum = 0;
    memory.for_each_chunk(block, [&](std::int64_t begin, std::size_t count, bool) {
      sum += sum_of_squares(gradient(contributions, begin, count, buffer));
    });
    block_sums[static_cast<std::size_t>(block)] = sum;
  });
  double total = 0;
  for (std::int64_t block = 0; block < blocks; ++block) total += block_sums[static_cast<std::size_t>(block)];
  return total;
}

void update_group(GroupMemory& memory, const Contributions& contributions, float factor,
                  const optimizers::AdamWSettings& settings, Workers& workers) {
  optimizers::AdamWSettings without_decay = settings;
  without_decay.weight_decay = 0;
  workers.parallel_for(memory.blocks(), [&](std::int64_t block, int) {
    ChunkBuffer buffer;
    memory.for_each_chunk(block, [&](std::int64_t begin, std::size_t count, bool decay) {
      const std::span<const float> sum = gradient(contributions, begin, count, buffer);
      memory.update(begin, scaled(sum, factor, buffer), decay ? settings : without_decay);
    });
  });
}

}  // namespace l2l::eps
