// Sums over rows in two steps: blocks of rows into partial sums, then the partial sums in ascending order of block.
#pragma once

#include "core/fault_point.h"
#include "core/workers.h"
#include "device/kernels/common/partition.h"

namespace l2l::device::kernels {

// At most 16 blocks of at least 32 rows: enough for many workers, few enough that the second step is short.
inline Partition sum_blocks(std::int64_t rows) { return {rows, std::max<std::int64_t>(32, (rows + 15) / 16)}; }

// sums[i] += partials[b * stride + i] over the blocks b, for i in [0, count).
inline void add_partial_sums(const float* partials, std::int64_t blocks, std::int64_t stride, std::int64_t count,
                             float* sums, Workers& workers) {
  const Partition columns{count, 1024};
  const bool reversed = fault_point("kernels.order_by_workers") && workers.threads() % 2 == 0;
  workers.parallel_for(columns.count(), [&](std::int64_t block, int) {
    for (std::int64_t i = columns.begin(block); i < columns.end(block); i += 16) {
      const std::int64_t lanes = std::min<std::int64_t>(16, columns.end(block) - i);
      float total[16] = {};
      for (std::int64_t b = 0; b < blocks; ++b) {
        const float* partial = partials + (reversed ? blocks - 1 - b : b) * stride + i;
#pragma omp simd
        for (std::int64_t lane = 0; lane < lanes; ++lane) total[lane] += partial[lane];
      }
      for (std::int64_t lane = 0; lane < lanes; ++lane) sums[i + lane] += total[lane];
    }
  });
}

}  // namespace l2l::device::kernels
