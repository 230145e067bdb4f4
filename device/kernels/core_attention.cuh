// What the kernels of core attention share: the tiles of attention_plain.cuh, and the matrix of a task (one head of one
// sequence), its probabilities or their gradient, which is [sequence][sequence] in device memory.
#pragma once

#include "device/kernels/attention_plain.cuh"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/shared.cuh"

namespace l2l::device::cuda::core {

using plain::kSide;
using plain::kThreads;
using plain::Place;

// Rows of its sequence that a tile of queries sees: the first ones.
__device__ inline int seen_by(const AttentionProblem& problem, const Place& place) {
  return problem.seen_by(place.first + place.rows - 1);
}

__device__ inline bool sees(const AttentionProblem& problem, int i, int j) {
  return i < problem.sequence && j < problem.sequence && problem.sees(i, j);
}
__device__ inline bool sees(const SeenRows<true>& seen_rows, int i, int j) {
  return sees(seen_rows.problem, i, j) && seen_rows.sees(i, j);
}

template <typename T, int kDim, int kTile>
struct Tile : plain::Tile<T, kDim, kTile> {
  using Plain = plain::Tile<T, kDim, kTile>;

  // tile[row][column] = value(row of all matrices, its element) where query `i + row` of the task sees key `j +
  // column`, else 0.
  template <typename ValueAt>
  __device__ static void fill(float* tile, const AttentionProblem& problem, std::int64_t task, int i, int j,
                              const ValueAt& value) {
    for (int k = static_cast<int>(threadIdx.x); k < kTile * kTile; k += kThreads) {
      const int row = k / kTile, column = k % kTile;
      const bool seen = sees(problem, i + row, j + column);
      const std::int64_t all = task * problem.sequence + i + row;
      tile[row * Plain::kScoreStride + column] = seen ? value(all, all * problem.sequence + j + column) : 0.0f;
    }
  }

  // Writes this thread's part of rows `i` and columns `j` of a task's matrix, 0 where a query does not see a key.
  // `Seen`: AttentionProblem or SeenRows.
  template <typename Seen>
  __device__ static void store_matrix(T* matrices, const AttentionProblem& problem, const Seen& seen, std::int64_t task,
                                      int i, int j, const float (&values)[Plain::kPer][Plain::kPer]) {
    const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
#pragma unroll
    for (int r = 0; r < Plain::kPer; ++r) {
      const int row = i + ty * Plain::kPer + r;
#pragma unroll
      for (int c = 0; c < Plain::kPer; ++c) {
        const int column = j + tx + kSide * c;
        if (row >= problem.sequence || column >= problem.sequence) continue;
        const float value = sees(seen, row, column) ? values[r][c] : 0.0f;
        matrices[problem.matrix_offset(task, row) + column] = narrow<T>(value);
      }
    }
  }

  // Zeros in the tile's rows from column `begin` on.
  __device__ static void clear_rest(T* matrices, const AttentionProblem& problem, const Place& place, int begin) {
    const int columns = problem.sequence - begin;
    for (int k = static_cast<int>(threadIdx.x); k < place.rows * columns; k += kThreads) {
      const int row = place.first + k / columns;
      matrices[problem.matrix_offset(place.task, row) + begin + k % columns] = narrow<T>(0.0f);
    }
  }

  // Writes sums times `factor`, plus those of `other` where it is not null. Both lie `stride` elements apart.
  __device__ static void store_sum(T* destination, const T* other, std::int64_t stride, int valid, int head_dim,
                                   const float (&sums)[Plain::kPer][Plain::kWide], float factor) {
    const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
#pragma unroll
    for (int r = 0; r < Plain::kPer; ++r) {
      const int row = ty * Plain::kPer + r;
      if (row >= valid) continue;
#pragma unroll
      for (int u = 0; u < Plain::kWide; ++u) {
        const int d = tx + kSide * u;
        if (d >= head_dim) continue;
        const float before = other == nullptr ? 0.0f : widen(other[row * stride + d]);
        destination[row * stride + d] = narrow<T>(fmaf(sums[r][u], factor, before));
      }
    }
  }
};

// What the kernels of the backward pass of softmax read: gradients of scores are P (dP - D).
template <typename T>
struct SoftmaxGradient {
  const T *dprobabilities, *probabilities;
  const float* products;  // D = dP . P, [tasks][sequence]

  __device__ float operator()(std::int64_t row, std::int64_t element) const {
    return widen(probabilities[element]) * (widen(dprobabilities[element]) - products[row]);
  }
};

// A kernel with its threads and its shared memory.
template <typename Function>
struct Part {
  Function* kernel;
  int rows;  // queries or keys that a block owns
  unsigned int threads;
  std::size_t shared_bytes;

  // `heads`: tasks, or heads of keys of all sequences.
  template <typename... Arguments>
  void run(const char* name, const AttentionProblem& problem, std::int64_t heads, cudaStream_t stream,
           Arguments&&... arguments) const {
    const std::int64_t tiles = ceil_div(problem.sequence, rows);
    launch(name, kernel, {static_cast<unsigned int>(tiles * heads), threads, shared_bytes}, stream, problem,
           std::forward<Arguments>(arguments)...);
  }
};

template <typename T, int kDim, int kTile>
auto part_of(int tiles, int matrices, const auto& kernel_for) {
  using Tiles = Tile<T, kDim, kTile>;
  const std::size_t bytes =
      static_cast<std::size_t>(tiles * Tiles::kElements + matrices * Tiles::kScores) * sizeof(float);
  auto* const kernel = kernel_for.template operator()<kDim, kTile>();
  allow_shared_memory(kernel, bytes);
  return Part<std::remove_pointer_t<decltype(kernel)>>{kernel, kTile, kThreads, bytes};
}

// The kernel of the tile that serves heads of `dim` elements, which kernel_for.operator()<kDim, kTile>() returns: with
// shared memory for `tiles` tiles of heads and `matrices` of probabilities.
template <typename T>
auto part_for(int dim, int tiles, int matrices, const auto& kernel_for) {
  if (dim <= 32) return part_of<T, 32, 64>(tiles, matrices, kernel_for);
  if (dim <= 64) return part_of<T, 64, 64>(tiles, matrices, kernel_for);
  if (dim <= 128) return part_of<T, 128, 32>(tiles, matrices, kernel_for);
  if (dim <= 256) return part_of<T, 256, 32>(tiles, matrices, kernel_for);
  throw BadInput("heads of " + std::to_string(dim) + " elements, at most 256: use more heads");
}

}  // namespace l2l::device::cuda::core
