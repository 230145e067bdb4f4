// Attention forward without tensor cores. A block owns kTile queries of one head and takes the keys a tile at a time;
// softmax is rescaled as larger scores appear (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018), so scores are never stored.
#pragma once

#include "device/kernels/attention_plain.cuh"
#include "device/kernels/common/shared.cuh"

namespace l2l::device::cuda::plain {

// Grid: tiles of queries x tasks, the longest rows first.
template <typename T, int kDim, int kTile>
__global__ __launch_bounds__(kThreads) void attention_forward(const AttentionProblem problem, const T* qkv,
                                                              const std::int32_t* documents, T* y, float* logsumexp,
                                                              const LaunchParameters* parameters) {
  using Tiles = Tile<T, kDim, kTile>;
  constexpr int kPer = Tiles::kPer;
  float* const queries = dynamic_shared<float>();
  float* const keys = queries + Tiles::kElements;  // then values
  float* const weights = keys + Tiles::kElements;

  const auto [task, sequence_index, head, kv_head, first, rows] = place_of_queries<kTile>(problem);
  const SeenRows<true> seen_rows(problem, documents, sequence_index);
  const int seen = seen_rows.end(first + rows - 1);
  const std::int64_t stride = problem.qkv_stride();
  const T* const key = qkv + problem.key_offset(sequence_index, kv_head);
  const T* const value = qkv + problem.value_offset(sequence_index, kv_head);
  const AttentionDropout<true> dropout(problem, parameters);
  const float to_log2 = problem.scale * 1.4426950408889634f;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;

  float sums[kPer][Tiles::kWide], highest[kPer], total[kPer];
  Tiles::clear(sums);
#pragma unroll
  for (int r = 0; r < kPer; ++r) {
    highest[r] = -INFINITY;
    total[r] = 0;
  }
  Tiles::load(queries, qkv + problem.query_offset(sequence_index, head) + first * stride, stride, rows,
              problem.head_dim);
  for (int j = seen_rows.first(first) / kTile * kTile; j < seen; j += kTile) {
    const int columns = min(kTile, seen - j);
    __syncthreads();
    Tiles::load(keys, key + j * stride, stride, columns, problem.head_dim);
    __syncthreads();
    float scores[kPer][kPer];
    Tiles::products(scores, queries, keys);
    __syncthreads();
    Tiles::load(keys, value + j * stride, stride, columns, problem.head_dim);
    std::uint32_t kept = 0xffffffffu;
    if (dropout.active()) {
      kept = Tiles::keeps(dropout, problem.probability_row(task, first + ty * kPer), problem.sequence, j);
    }
#pragma unroll
    for (int r = 0; r < kPer; ++r) {
      const int i = first + ty * kPer + r;
      float largest = highest[r];
#pragma unroll
      for (int c = 0; c < kPer; ++c) {
        const int column = tx + kSide * c;
        const bool visible = column < columns && seen_rows.sees(i, j + column);
        scores[r][c] = visible ? cap_score(problem, scores[r][c]) : -INFINITY;
        largest = fmaxf(largest, scores[r][c]);
      }
      largest = row_max(largest);
      const float base = largest == -INFINITY ? 0.0f : largest;  // a window may leave nothing of the first tile
      const float factor = exp2f((highest[r] - base) * to_log2);
      highest[r] = largest;
      total[r] *= factor;
#pragma unroll
      for (int u = 0; u < Tiles::kWide; ++u) sums[r][u] *= factor;
#pragma unroll
      for (int c = 0; c < kPer; ++c) {
        const float weight = exp2f((scores[r][c] - base) * to_log2);
        total[r] += weight;
        weights[(ty * kPer + r) * Tiles::kScoreStride + tx + kSide * c] = kept >> (kPer * r + c) & 1u ? weight : 0.0f;
      }
    }
    __syncthreads();
    Tiles::template accumulate<false>(sums, weights, keys);
  }

  float factors[kPer];
#pragma unroll
  for (int r = 0; r < kPer; ++r) {
    const float sum = row_sum(total[r]);
    factors[r] = dropout.scale() / sum;
    const int row = ty * kPer + r;
    if (tx == 0 && row < rows) {
      logsumexp[problem.logsumexp_offset(sequence_index, head) +
                static_cast<std::int64_t>(first + row) * problem.heads] = highest[r] * problem.scale + logf(sum);
    }
  }
  Tiles::store(y + problem.y_offset(sequence_index, head) + first * problem.y_stride(), problem.y_stride(), rows,
               problem.head_dim, sums, factors);
}

template <typename T, int kDim, int kTile>
constexpr std::size_t forward_shared_bytes() {
  using Tiles = Tile<T, kDim, kTile>;
  return (2 * Tiles::kElements + Tiles::kScores) * sizeof(float);
}

}  // namespace l2l::device::cuda::plain
