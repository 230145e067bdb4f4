// Sums over the rows of a matrix in two steps: slabs of rows into partial sums, then these in ascending order. Both
// orders depend on the shape alone.
#pragma once

#include <algorithm>

#include "device/kernels/common/cuda_kernel.h"
#include "device/kernels/common/floats.cuh"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/rows.cuh"

namespace l2l::device::cuda {

inline constexpr int kSlices = 8, kSumThreads = 32 * kSlices;

// sums[i] += partials[b * columns + i] over the `blocks` blocks b.
template <int kColumns>
__global__ void __launch_bounds__(kColumns* kSlices)
    partial_sums(const float* partials, std::int64_t blocks, std::int64_t columns, float* sums) {
  __shared__ float shared[kSlices][kColumns];
  const unsigned int lane = threadIdx.x % kColumns, slice = threadIdx.x / kColumns;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + lane;
  float total = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t block = slice; block < blocks; block += kSlices) total += partials[block * columns + column];
  }
  shared[slice][lane] = total;
  __syncthreads();
  if (slice > 0 || column >= columns) return;
#pragma unroll
  for (int other = 1; other < kSlices; ++other) total += shared[other][lane];
  sums[column] += total;
}

inline void launch_partial_sums(const float* partials, std::int64_t blocks, std::int64_t columns, float* sums,
                                cudaStream_t stream) {
  launch("partial_sums", partial_sums<32>, {ceil_div(columns, 32), kSumThreads}, stream, partials, blocks, columns,
         sums);
}

// partials[s * columns + c] = sum of source.at<Count>(row, c) over the rows of slab s; at() is called once per group of
// Count columns. Each thread first calls source.prepare() on its own copy.
template <int Count, typename Source>
__global__ void __launch_bounds__(kSumThreads)
    slab_sums(std::int64_t rows, std::int64_t columns, std::int64_t slab_rows, Source source, float* partials) {
  __shared__ float shared[kSlices][32 * Count];
  source.prepare();
  const unsigned int lane = threadIdx.x % 32, slice = threadIdx.x / 32;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * 32 * Count, column = first + lane * Count;
  const std::int64_t begin = blockIdx.y * slab_rows, end = min(rows, begin + slab_rows);
  Floats<Count> sum{};
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = begin + slice; row < end; row += kSlices) {
      const Floats<Count> values = source.template at<Count>(row, column);
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] += values[i];
    }
  }
#pragma unroll
  for (int i = 0; i < Count; ++i) shared[slice][lane * Count + i] = sum[i];
  __syncthreads();
  for (unsigned int i = threadIdx.x; i < 32 * Count && first + i < columns; i += kSumThreads) {
    float total = 0;
#pragma unroll
    for (int other = 0; other < kSlices; ++other) total += shared[other][i];
    partials[blockIdx.y * columns + first + i] = total;
  }
}

// Sums of all columns of a matrix. A Source gives its elements, and may also store them.
template <typename T>
class ColumnSums {
 public:
  ColumnSums(std::int64_t rows, std::int64_t columns) : rows_(rows), columns_(columns) {
    // Some blocks for each of a hundred multiprocessors, and at least four rows for each slice of a block.
    constexpr std::int64_t kBlocks = 1056, kMostSlabs = 256;
    const std::int64_t across = ceil_div(columns, 32 * width());
    const std::int64_t most = std::min<std::int64_t>(kMostSlabs, ceil_div(rows, 4 * kSlices));
    slab_rows_ = ceil_div(rows, std::clamp<std::int64_t>(kBlocks / across, 1, most));
  }

  Bytes workspace() const { return static_cast<Bytes>(slabs() * columns_) * sizeof(float); }

  // sums[c] += sum of column c.
  template <typename Source>
  void enqueue(const char* name, const Source& source, std::byte* workspace, float* sums, cudaStream_t stream) const {
    auto* const partials = reinterpret_cast<float*>(workspace);
    const LaunchShape shape{dim3(ceil_div(columns_, 32 * width()), static_cast<unsigned int>(slabs())), kSumThreads};
    if (rows_are_packed<T>(columns_)) {
      launch(name, slab_sums<kPack<T>, Source>, shape, stream, rows_, columns_, slab_rows_, source, partials);
    } else {
      launch(name, slab_sums<1, Source>, shape, stream, rows_, columns_, slab_rows_, source, partials);
    }
    launch_partial_sums(partials, slabs(), columns_, sums, stream);
  }

 private:
  std::int64_t width() const { return rows_are_packed<T>(columns_) ? kPack<T> : 1; }
  std::int64_t slabs() const { return ceil_div(rows_, slab_rows_); }

  std::int64_t rows_, columns_, slab_rows_ = 1;
};

}  // namespace l2l::device::cuda
