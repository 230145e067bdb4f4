// Attention backward without tensor cores: one kernel whose blocks own keys (dk, dv), one whose blocks own queries
// (dq). Both recompute the scores: seven products instead of five, but every output is written once, by one thread, in
// a fixed order. With P the probabilities, M the dropout mask with its scale and D = dy . y per row: dv = (P M)^T dy,
// dS = P (M (dy v^T) - D), dq = dS k scale, dk = dS^T q scale (T. Dao et al., "FlashAttention", NeurIPS 2022, B.2).
#pragma once

#include "device/kernels/attention_plain.cuh"
#include "device/kernels/attention_statistics.cuh"
#include "device/kernels/common/shared.cuh"

namespace l2l::device::cuda::plain {

// What both kernels hold in shared memory.
template <typename T, int kDim, int kTile>
struct BackwardTiles {
  using Tiles = Tile<T, kDim, kTile>;
  float *queries, *dy, *keys, *values;  // [kTile][kStride]
  float *weights, *dscores;             // [kTile queries][kScoreStride keys]: P M without its scale, and dS
  RowStatistics* statistics;            // [kTile]

  static constexpr std::size_t kBytes =
      (4 * Tiles::kElements + 2 * Tiles::kScores) * sizeof(float) + kTile * sizeof(RowStatistics);

  __device__ BackwardTiles() {
    queries = dynamic_shared<float>();
    dy = queries + Tiles::kElements;
    keys = dy + Tiles::kElements;
    values = keys + Tiles::kElements;
    weights = values + Tiles::kElements;
    dscores = weights + Tiles::kScores;
    statistics = reinterpret_cast<RowStatistics*>(dscores + Tiles::kScores);
  }

  __device__ void load_queries(const AttentionProblem& problem, const T* qkv, const T* dy_source,
                               const RowStatistics* all_statistics, std::int64_t sequence_index, int head, int first) {
    const int rows = min(kTile, problem.sequence - first);
    Tiles::load(queries, qkv + problem.query_offset(sequence_index, head) + first * problem.qkv_stride(),
                problem.qkv_stride(), rows, problem.head_dim);
    Tiles::load(dy, dy_source + problem.y_offset(sequence_index, head) + first * problem.y_stride(), problem.y_stride(),
                rows, problem.head_dim);
    if (static_cast<int>(threadIdx.x) < rows) {
      statistics[threadIdx.x] =
          all_statistics[(sequence_index * problem.heads + head) * problem.sequence + first + threadIdx.x];
    }
  }

  __device__ void load_keys(const AttentionProblem& problem, const T* qkv, std::int64_t sequence_index, int kv_head,
                            int first) {
    const int rows = min(kTile, problem.sequence - first);
    Tiles::load(keys, qkv + problem.key_offset(sequence_index, kv_head) + first * problem.qkv_stride(),
                problem.qkv_stride(), rows, problem.head_dim);
    Tiles::load(values, qkv + problem.value_offset(sequence_index, kv_head) + first * problem.qkv_stride(),
                problem.qkv_stride(), rows, problem.head_dim);
  }

  // Fills weights and dscores of queries from `first_query` and keys from `first_key`.
  __device__ void differentiate(const AttentionProblem& problem, const SeenRows<true>& seen_rows,
                                const AttentionDropout<true>& dropout, std::int64_t task, int first_query,
                                int first_key) {
    constexpr int kPer = Tiles::kPer;
    float scores[kPer][kPer], products[kPer][kPer];
    Tiles::products(scores, queries, keys);
    Tiles::products(products, dy, values);
    const float to_log2 = problem.scale * 1.4426950408889634f;
    const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
    std::uint32_t kept = 0xffffffffu;
    if (dropout.active()) {
      kept = Tiles::keeps(dropout, problem.probability_row(task, first_query + ty * kPer), problem.sequence, first_key);
    }
#pragma unroll
    for (int r = 0; r < kPer; ++r) {
      const int row = ty * kPer + r, i = first_query + row;
      const RowStatistics own = i < problem.sequence ? statistics[row] : RowStatistics{};
#pragma unroll
      for (int c = 0; c < kPer; ++c) {
        const int column = tx + kSide * c, j = first_key + column;
        const bool masked = i >= problem.sequence || j >= problem.sequence || !seen_rows.sees(i, j);
        const float score = cap_score(problem, scores[r][c]);
        const float probability = masked ? 0.0f : exp2f(fmaf(score, to_log2, -own.logsumexp_log2));
        const float mask = kept >> (kPer * r + c) & 1u ? 1.0f : 0.0f;
        weights[row * Tiles::kScoreStride + column] = probability * mask;
        dscores[row * Tiles::kScoreStride + column] =
            probability * fmaf(products[r][c] * mask, dropout.scale(), -own.product) * cap_slope(problem, score);
      }
    }
  }
};

// dk and dv. Grid: tiles of keys x (sequences x heads of keys).
template <typename T, int kDim, int kTile>
__global__ __launch_bounds__(kThreads) void attention_backward_keys(const AttentionProblem problem, const T* dy,
                                                                    const T* qkv, const RowStatistics* statistics,
                                                                    const std::int32_t* documents, T* dqkv,
                                                                    const LaunchParameters* parameters) {
  using Tiles = Tile<T, kDim, kTile>;
  BackwardTiles<T, kDim, kTile> shared;
  const auto [first_task, sequence_index, first_head, kv_head, first_key, rows] = place_of_keys<kTile>(problem);
  const AttentionDropout<true> dropout(problem, parameters);

  float dk[Tiles::kPer][Tiles::kWide], dv[Tiles::kPer][Tiles::kWide];
  Tiles::clear(dk);
  Tiles::clear(dv);
  shared.load_keys(problem, qkv, sequence_index, kv_head, first_key);
  const SeenRows<true> seen_rows(problem, documents, sequence_index);
  const int begin = seen_rows.seers_begin(first_key);
  const int end = seen_rows.seers_end(first_key + rows - 1);
  for (int member = 0; member < problem.group(); ++member) {
    for (int i = begin; i < end; i += kTile) {
      __syncthreads();
      shared.load_queries(problem, qkv, dy, statistics, sequence_index, first_head + member, i);
      __syncthreads();
      shared.differentiate(problem, seen_rows, dropout, first_task + member, i, first_key);
      __syncthreads();
      Tiles::template accumulate<true>(dv, shared.weights, shared.dy);
      Tiles::template accumulate<true>(dk, shared.dscores, shared.queries);
    }
  }
  float key_factors[Tiles::kPer], value_factors[Tiles::kPer];
#pragma unroll
  for (int r = 0; r < Tiles::kPer; ++r) {
    key_factors[r] = problem.scale;
    value_factors[r] = dropout.scale();
  }
  const std::int64_t stride = problem.qkv_stride();
  Tiles::store(dqkv + problem.key_offset(sequence_index, kv_head) + first_key * stride, stride, rows, problem.head_dim,
               dk, key_factors);
  Tiles::store(dqkv + problem.value_offset(sequence_index, kv_head) + first_key * stride, stride, rows,
               problem.head_dim, dv, value_factors);
}

// dq. Grid: tiles of queries x tasks, the longest rows first.
template <typename T, int kDim, int kTile>
__global__ __launch_bounds__(kThreads) void attention_backward_queries(const AttentionProblem problem, const T* dy,
                                                                       const T* qkv, const RowStatistics* statistics,
                                                                       const std::int32_t* documents, T* dqkv,
                                                                       const LaunchParameters* parameters) {
  using Tiles = Tile<T, kDim, kTile>;
  BackwardTiles<T, kDim, kTile> shared;
  const auto [task, sequence_index, head, kv_head, first, rows] = place_of_queries<kTile>(problem);
  const SeenRows<true> seen_rows(problem, documents, sequence_index);
  const int seen = seen_rows.end(first + rows - 1);
  const AttentionDropout<true> dropout(problem, parameters);

  float dq[Tiles::kPer][Tiles::kWide];
  Tiles::clear(dq);
  shared.load_queries(problem, qkv, dy, statistics, sequence_index, head, first);
  for (int j = seen_rows.first(first) / kTile * kTile; j < seen; j += kTile) {
    __syncthreads();
    shared.load_keys(problem, qkv, sequence_index, kv_head, j);
    __syncthreads();
    shared.differentiate(problem, seen_rows, dropout, task, first, j);
    __syncthreads();
    Tiles::template accumulate<false>(dq, shared.dscores, shared.keys);
  }
  float factors[Tiles::kPer];
#pragma unroll
  for (int r = 0; r < Tiles::kPer; ++r) factors[r] = problem.scale;
  Tiles::store(dqkv + problem.query_offset(sequence_index, head) + first * problem.qkv_stride(), problem.qkv_stride(),
               rows, problem.head_dim, dq, factors);
}

}  // namespace l2l::device::cuda::plain
