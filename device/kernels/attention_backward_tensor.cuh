// Attention backward on tensor cores: the same two kernels as in attention_backward_plain.cuh (formulas there). Every
// product takes its left factor from registers or from rows that the warp owns, so warps never wait for one another's
// results. Scores and gradients of scores are fp32, and are rounded to T (fp32 to TF32) where they enter a product.
#pragma once

#include "device/kernels/attention_statistics.cuh"
#include "device/kernels/attention_tensor.cuh"
#include "device/kernels/common/shared.cuh"

namespace l2l::device::cuda::tensor {

inline constexpr float kLog2E = 1.4426950408889634f;

// A block owns 64 kBlocks keys, each warp 16 kBlocks of them; queries and dy arrive kQueries at a time.
template <typename T, int kDim, int kBlocks, int kQueries>
struct BackwardKeysShape {
  static constexpr int kKeys = 16 * kBlocks * kWarps;
  static constexpr int kTile = kQueries * Rows<T, kDim>::kStride;
  static constexpr std::size_t kSharedBytes =
      (2 * kKeys * Rows<T, kDim>::kStride + 4 * kTile) * sizeof(T) + 2 * kQueries * sizeof(RowStatistics);
};

// Turns scores into probabilities (dropped ones 0) and products dy v into gradients of scores. Rows are keys from `j`,
// columns queries from `i`, whose statistics are given.
template <int kBlocks, int kQueries, bool kDropout, typename Seen>
__device__ inline void differentiate_by_key(Sums<kBlocks, kQueries>& scores, Sums<kBlocks, kQueries>& products,
                                            const Seen& seen_rows, const AttentionDropout<kDropout>& dropout,
                                            std::int64_t task, int i, int j, const RowStatistics* statistics,
                                            bool masked) {
  const AttentionProblem& problem = seen_rows.problem;
  const float to_log2 = problem.scale * kLog2E;
  const int g = lane_group(), t = lane_in_group();
  std::uint32_t four_tiles[kBlocks];
#pragma unroll
  for (int n = 0; n < kQueries / 8; ++n) {
    const int column = 8 * n + 2 * t;
    const float4 pair = *reinterpret_cast<const float4*>(statistics + column);
    const float shifts[2] = {pair.x, pair.z}, rows[2] = {pair.y, pair.w};
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      if (dropout.active() && n % 4 == 0) {
        four_tiles[m] = keeps_by_key(dropout, problem.probability_row(task, i + 8 * n), problem.sequence, j + 16 * m);
      }
      const std::uint32_t kept = dropout.active() ? four_tiles[m] >> (n % 4 * 4) : 15u;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int query = i + column + e % 2, key = j + 16 * m + g + e / 2 * 8;
        float probability = exp2_fast(fmaf(scores.tiles[m][n][e], to_log2, -shifts[e % 2]));
        if (masked && (query >= problem.sequence || key >= problem.sequence || !seen_rows.sees(query, key))) {
          probability = 0;
        }
        const float factor = kept >> e & 1u ? dropout.scale() : 0.0f;
        products.tiles[m][n][e] = probability * fmaf(products.tiles[m][n][e], factor, -rows[e % 2]);
        scores.tiles[m][n][e] = kept >> e & 1u ? probability : 0.0f;
      }
    }
  }
}

// dk and dv. Grid: tiles of keys x (sequences x heads of keys), the first keys (which the most queries see) first.
template <typename T, int kDim, int kBlocks, int kQueries, bool kDropout, bool kPacked>
__global__ __launch_bounds__(kThreads) void attention_backward_keys(const AttentionProblem problem, const T* dy,
                                                                    const T* qkv, const RowStatistics* statistics,
                                                                    const std::int32_t* documents, T* dqkv,
                                                                    const LaunchParameters* parameters) {
  using HeadRows = Rows<T, kDim>;
  using Shape = BackwardKeysShape<T, kDim, kBlocks, kQueries>;
  constexpr int kTile = Shape::kTile;
  T* const keys = dynamic_shared<T>();
  T* const values = keys + Shape::kKeys * HeadRows::kStride;
  T* const queries = values + Shape::kKeys * HeadRows::kStride;  // two tiles
  T* const gradients = queries + 2 * kTile;                      // dy, two tiles
  RowStatistics* const own_statistics = reinterpret_cast<RowStatistics*>(gradients + 2 * kTile);

  const std::int64_t pairs = problem.sequences * problem.kv_heads, pair = blockIdx.x % pairs;
  const int first = static_cast<int>(blockIdx.x / pairs) * Shape::kKeys;
  const std::int64_t sequence_index = pair / problem.kv_heads, stride = problem.qkv_stride();
  const int kv_head = static_cast<int>(pair % problem.kv_heads);
  const int rows = min(Shape::kKeys, problem.sequence - first);
  const AttentionDropout<kDropout> dropout(problem, parameters);

  // The heads of queries that share these keys, one after the other; of each the tiles of queries from `begin`.
  const SeenRows<kPacked> seen_rows(problem, documents, sequence_index);
  const int begin = seen_rows.seers_begin(first) / kQueries * kQueries;
  const int end = seen_rows.seers_end(first + rows - 1);
  const int last_head = kv_head * problem.group() + problem.group() - 1;
  const auto load_queries = [&](int head, int i, int stage) {
    const int valid = problem.sequence - i;
    HeadRows::template load<kQueries>(queries + stage * kTile,
                                      qkv + problem.query_offset(sequence_index, head) + i * stride, stride, valid,
                                      problem.head_dim);
    HeadRows::template load<kQueries>(gradients + stage * kTile,
                                      dy + problem.y_offset(sequence_index, head) + i * problem.y_stride(),
                                      problem.y_stride(), valid, problem.head_dim);
    const int row = static_cast<int>(threadIdx.x);
    if (row < kQueries) {
      const bool inside = row < valid;
      const std::int64_t offset = (sequence_index * problem.heads + head) * problem.sequence + i;
      copy_async<8>(own_statistics + stage * kQueries + row, statistics + offset + (inside ? row : 0), inside);
    }
    commit_copies();
  };
  HeadRows::template load<Shape::kKeys>(keys, qkv + problem.key_offset(sequence_index, kv_head) + first * stride,
                                        stride, rows, problem.head_dim);
  HeadRows::template load<Shape::kKeys>(values, qkv + problem.value_offset(sequence_index, kv_head) + first * stride,
                                        stride, rows, problem.head_dim);
  int head = kv_head * problem.group(), i = begin;
  load_queries(head, i, 0);

  const int own = 16 * kBlocks * warp_index(), own_first = first + own;  // this warp's keys
  Sums<kBlocks, kDim> dk, dv;
  dk.clear();
  dv.clear();
  for (int stage = 0; head <= last_head; stage ^= 1) {
    const bool wraps = i + kQueries >= end;
    const int next_head = head + (wraps ? 1 : 0), next_i = wraps ? begin : i + kQueries;
    if (next_head <= last_head) {
      load_queries(next_head, next_i, stage ^ 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    if (head == kv_head * problem.group() && i == begin) {
      HeadRows::template round<Shape::kKeys>(keys);
      HeadRows::template round<Shape::kKeys>(values);
    }
    HeadRows::template round<kQueries>(queries + stage * kTile);
    HeadRows::template round<kQueries>(gradients + stage * kTile);
    __syncthreads();
    const int own_last = own_first + 16 * kBlocks - 1;  // keys
    if (i + kQueries > seen_rows.seers_begin(own_first) && i < seen_rows.seers_end(own_last)) {
      const std::int64_t task = sequence_index * problem.heads + head;
      const bool masked = i + kQueries > problem.sequence || own_last >= problem.sequence ||
                          !seen_rows.sees(i, own_last) || !seen_rows.sees(i + kQueries - 1, own_first);
      const T* const q = queries + stage * kTile;
      const T* const gradient = gradients + stage * kTile;
      Sums<kBlocks, kQueries> scores, products;
      HeadRows::template dot_products<kBlocks, kQueries>(
          scores, q, [&](std::uint32_t(&a)[4], int m, int k) { HeadRows::left(a, keys, own + 16 * m, k); });
      HeadRows::template dot_products<kBlocks, kQueries>(
          products, gradient, [&](std::uint32_t(&a)[4], int m, int k) { HeadRows::left(a, values, own + 16 * m, k); });
      differentiate_by_key(scores, products, seen_rows, dropout, task, i, own_first, own_statistics + stage * kQueries,
                           masked);
      HeadRows::template accumulate<kBlocks, kQueries>(dv, scores, gradient);
      HeadRows::template accumulate<kBlocks, kQueries>(dk, products, q);
    }
    __syncthreads();
    head = next_head;
    i = next_i;
  }
  HeadRows::template store<kBlocks>(
      dk, [&](int, int) { return problem.scale; }, keys + own * HeadRows::kStride,
      dqkv + problem.key_offset(sequence_index, kv_head) + own_first * stride, stride, rows - own, problem.head_dim);
  HeadRows::template store<kBlocks>(
      dv, [&](int, int) { return dropout.scale(); }, values + own * HeadRows::kStride,
      dqkv + problem.value_offset(sequence_index, kv_head) + own_first * stride, stride, rows - own, problem.head_dim);
}

// A block owns 64 kBlocks queries; keys and values arrive kKeys at a time.
template <typename T, int kDim, int kBlocks, int kKeys>
struct BackwardQueriesShape {
  static constexpr int kQueries = 16 * kBlocks * kWarps;
  static constexpr int kTile = kKeys * Rows<T, kDim>::kStride;
  static constexpr std::size_t kSharedBytes = (2 * kQueries * Rows<T, kDim>::kStride + 4 * kTile) * sizeof(T);
};

// Turns products dy v into gradients of scores. Rows are queries from `i`, columns keys from `j`.
template <int kBlocks, int kKeys, bool kDropout, typename Seen>
__device__ inline void differentiate_by_query(const Sums<kBlocks, kKeys>& scores, Sums<kBlocks, kKeys>& products,
                                              const Seen& seen_rows, const AttentionDropout<kDropout>& dropout,
                                              std::int64_t task, int i, int j,
                                              const RowStatistics (&statistics)[kBlocks][2], bool masked) {
  const AttentionProblem& problem = seen_rows.problem;
  const float to_log2 = problem.scale * kLog2E;
  const int g = lane_group(), t = lane_in_group();
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
    const std::int64_t row = problem.probability_row(task, i + 16 * m + g);
    std::uint32_t four_tiles = 0;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      if (dropout.active() && n % 4 == 0) {
        four_tiles = keeps_by_query(dropout, row, row + std::int64_t{8} * problem.sequence, j + 8 * n);
      }
      const std::uint32_t kept = dropout.active() ? four_tiles >> (n % 4 * 4) : 15u;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int query = i + 16 * m + g + e / 2 * 8, key = j + 8 * n + 2 * t + e % 2;
        const RowStatistics& own = statistics[m][e / 2];
        float probability = exp2_fast(fmaf(scores.tiles[m][n][e], to_log2, -own.logsumexp_log2));
        if (masked && (key >= problem.sequence || !seen_rows.sees(query, key))) probability = 0;
        const float factor = kept >> e & 1u ? dropout.scale() : 0.0f;
        products.tiles[m][n][e] = probability * fmaf(products.tiles[m][n][e], factor, -own.product);
      }
    }
  }
}

// dq. Grid: tiles of queries x tasks, the longest rows first.
template <typename T, int kDim, int kBlocks, int kKeys, bool kDropout, bool kPacked>
__global__ __launch_bounds__(kThreads) void attention_backward_queries(const AttentionProblem problem, const T* dy,
                                                                       const T* qkv, const RowStatistics* statistics,
                                                                       const std::int32_t* documents, T* dqkv,
                                                                       const LaunchParameters* parameters) {
  using HeadRows = Rows<T, kDim>;
  using Shape = BackwardQueriesShape<T, kDim, kBlocks, kKeys>;
  constexpr int kTile = Shape::kTile;
  T* const queries = dynamic_shared<T>();
  T* const gradients = queries + Shape::kQueries * HeadRows::kStride;  // dy
  T* const keys = gradients + Shape::kQueries * HeadRows::kStride;     // two tiles
  T* const values = keys + 2 * kTile;                                  // two tiles

  const std::int64_t task = blockIdx.x % problem.tasks();
  const int tiles = (problem.sequence + Shape::kQueries - 1) / Shape::kQueries;
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x / problem.tasks())) * Shape::kQueries;
  const std::int64_t sequence_index = task / problem.heads, stride = problem.qkv_stride();
  const int head = static_cast<int>(task % problem.heads), kv_head = head / problem.group();
  const int rows = min(Shape::kQueries, problem.sequence - first);
  const SeenRows<kPacked> seen_rows(problem, documents, sequence_index);
  const int seen = seen_rows.end(first + rows - 1);
  const T* const key = qkv + problem.key_offset(sequence_index, kv_head);
  const T* const value = qkv + problem.value_offset(sequence_index, kv_head);
  const AttentionDropout<kDropout> dropout(problem, parameters);

  const auto load_keys = [&](int j, int stage) {
    HeadRows::template load<kKeys>(keys + stage * kTile, key + j * stride, stride, problem.sequence - j,
                                   problem.head_dim);
    HeadRows::template load<kKeys>(values + stage * kTile, value + j * stride, stride, problem.sequence - j,
                                   problem.head_dim);
    commit_copies();
  };
  HeadRows::template load<Shape::kQueries>(queries, qkv + problem.query_offset(sequence_index, head) + first * stride,
                                           stride, rows, problem.head_dim);
  HeadRows::template load<Shape::kQueries>(gradients,
                                           dy + problem.y_offset(sequence_index, head) + first * problem.y_stride(),
                                           problem.y_stride(), rows, problem.head_dim);
  const int begin = seen_rows.first(first) / kKeys * kKeys;
  load_keys(begin, 0);

  const int own = 16 * kBlocks * warp_index(), own_first = first + own;  // this warp's queries
  RowStatistics own_statistics[kBlocks][2];
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = own_first + 16 * m + 8 * half + lane_group();
      if (i < problem.sequence) own_statistics[m][half] = statistics[task * problem.sequence + i];
    }
  }
  Sums<kBlocks, kDim> dq;
  dq.clear();
  for (int j = begin, stage = 0; j < seen; j += kKeys, stage ^= 1) {
    if (j + kKeys < seen) {
      load_keys(j + kKeys, stage ^ 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    if (j == begin) {
      HeadRows::template round<Shape::kQueries>(queries);
      HeadRows::template round<Shape::kQueries>(gradients);
    }
    HeadRows::template round<kKeys>(keys + stage * kTile);
    HeadRows::template round<kKeys>(values + stage * kTile);
    __syncthreads();
    const int own_last = own_first + 16 * kBlocks - 1;
    if (j < seen_rows.end(own_last) && j + kKeys > seen_rows.first(own_first)) {
      const bool masked =
          j + kKeys > problem.sequence || !seen_rows.sees(own_first, j + kKeys - 1) || !seen_rows.sees(own_last, j);
      Sums<kBlocks, kKeys> scores, products;
      HeadRows::template dot_products<kBlocks, kKeys>(
          scores, keys + stage * kTile,
          [&](std::uint32_t(&a)[4], int m, int k) { HeadRows::left(a, queries, own + 16 * m, k); });
      HeadRows::template dot_products<kBlocks, kKeys>(
          products, values + stage * kTile,
          [&](std::uint32_t(&a)[4], int m, int k) { HeadRows::left(a, gradients, own + 16 * m, k); });
      differentiate_by_query(scores, products, seen_rows, dropout, task, own_first, j, own_statistics, masked);
      HeadRows::template accumulate<kBlocks, kKeys>(dq, products, keys + stage * kTile);
    }
    __syncthreads();
  }
  HeadRows::template store<kBlocks>(
      dq, [&](int, int) { return problem.scale; }, queries + own * HeadRows::kStride,
      dqkv + problem.query_offset(sequence_index, head) + own_first * stride, stride, rows - own, problem.head_dim);
}

}  // namespace l2l::device::cuda::tensor
