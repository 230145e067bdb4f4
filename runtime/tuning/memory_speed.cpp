#include "runtime/tuning/memory_speed.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "core/trace.h"
#include "core/workers.h"

namespace l2l::runtime {
namespace {

constexpr std::int64_t kElements = 16 << 20;  // of an array: 64 MiB
constexpr std::int64_t kBlock = 64 << 10;
constexpr int kPasses = 6;  // the first one touches the pages
using Arrays = std::array<std::vector<float>, 3>;

void change(float* a, float* b, float* c) {
#pragma omp simd
  for (std::int64_t i = 0; i < kBlock; ++i) {
    b[i] += 0.5f * a[i];
    c[i] += 0.5f * b[i];
    a[i] += 0.5f * c[i];
  }
}

double seconds_of_pass(Arrays& arrays, Workers& workers) {
  const Clock::time_point begin = Clock::now();
  workers.parallel_for(kElements / kBlock, [&](std::int64_t block, int) {
    const std::int64_t first = block * kBlock;
    change(&arrays[0][static_cast<std::size_t>(first)], &arrays[1][static_cast<std::size_t>(first)],
           &arrays[2][static_cast<std::size_t>(first)]);
  });
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

double measure_memory(int threads) {
  Workers workers("memory", threads);
  Arrays arrays;
  for (std::vector<float>& array : arrays) array.resize(kElements);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double bytes = 2.0 * 3 * sizeof(float) * kElements;
    best = std::max(best, bytes / seconds_of_pass(arrays, workers));
  }
  return best;
}

}  // namespace l2l::runtime
