// Sums over rows in two steps: blocks of rows into partial sums, then the partial sums in ascending order of block.
#pragma once

#include <algorithm>
#include <iterator>

#include "core/fault_point.h"
#include "core/workers.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"

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

// sums[i] += column i of `matrix` [rows, columns], of which each task takes some columns: partial sums of 64 rows, then
// these in ascending order.
template <typename T>
void add_column_sums(const T* matrix, std::int64_t rows, std::int64_t columns, float* sums, Workers& workers) {
  constexpr std::int64_t kColumns = 64, kRows = 64;
  const Partition strips{columns, kColumns};
  const Partition blocks = row_blocks(strips.count(), rows * kColumns);
  const auto add_strip = [=](std::int64_t first, std::int64_t count) {
    float total[kColumns] = {};
    for (std::int64_t row = 0; row < rows;) {
      float partial[kColumns] = {};
      for (const std::int64_t end = std::min(rows, row + kRows); row < end; ++row) {
        const T* line = matrix + row * columns + first;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) partial[i] += widen(line[i]);
      }
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) total[i] += partial[i];
    }
    for (std::int64_t i = 0; i < count; ++i) sums[first + i] += total[i];
  };
  workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
    for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i) {
      add_strip(strips.begin(i), strips.end(i) - strips.begin(i));
    }
  });
}

// A table of sums, and which row of it a row is added to: row_of(i), below 0 for none.
template <typename RowOf>
struct RowSums {
  float* table;
  RowOf row_of;
};
template <typename RowOf>
RowSums(float*, RowOf) -> RowSums<RowOf>;  // clang before 17 deduces nothing of an aggregate by itself

// Adds the rows of dy [rows, hidden] times `factor` to each of `sums`, in ascending order. Each task owns some columns:
// equal rows of a table meet in one thread.
template <typename T, typename... RowOf>
void add_rows(const T* dy, std::int64_t rows, std::int64_t hidden, float factor, Workers& workers,
              const RowSums<RowOf>&... sums) {
  constexpr std::int64_t kColumns = 32;
  const Partition columns{hidden, kColumns};
  workers.parallel_for(columns.count(), [&](std::int64_t block, int) {
    const std::int64_t begin = columns.begin(block), count = columns.end(block) - begin;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t places[] = {sums.row_of(row)...};
      if (*std::max_element(std::begin(places), std::end(places)) < 0) continue;
      float line[kColumns];
      widen_row(dy + row * hidden + begin, line, count);
      const auto add_to = [&](float* table, std::int64_t to) {
        if (to < 0) return;
        float* const own = table + to * hidden + begin;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) own[i] += line[i] * factor;
      };
      std::size_t next = 0;
      (add_to(sums.table, places[next++]), ...);
    }
  });
}

}  // namespace l2l::device::kernels
