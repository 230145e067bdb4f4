// Attention forward on tensor cores (T. Dao, "FlashAttention-2", 2023). A block of four warps owns 64 kBlocks queries
// of one head, each warp 16 kBlocks of them; keys and values arrive kKeys at a time, the next ones while these are
// used. Scores and their sums are fp32; weights e^(score - highest) are rounded to T (fp32 to TF32) for their product
// with the values, after their sum was taken.
#pragma once

#include "device/kernels/attention_tensor.cuh"
#include "device/kernels/common/shared.cuh"

namespace l2l::device::cuda::tensor {

template <typename T, int kDim, int kBlocks, int kKeys>
struct ForwardShape {
  static constexpr int kQueries = 16 * kBlocks * kWarps;
  static constexpr std::size_t kSharedBytes = (kQueries + 4 * kKeys) * Rows<T, kDim>::kStride * sizeof(T);
};

// Softmax of a warp's rows as far as they have been seen.
template <int kBlocks>
struct OnlineSoftmax {
  float highest[kBlocks][2], total[kBlocks][2];  // total: this lane's columns only

  __device__ OnlineSoftmax() {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        highest[m][half] = -INFINITY;
        total[m][half] = 0;
      }
    }
  }

  // Turns scores into weights 2^((score - highest) to_log2). As `highest` may have grown, rescale(m, half, factor) says
  // what sums of former weights are to be multiplied by in the lane's row 16 m + g + 8 half.
  template <int kKeys, typename Rescale>
  __device__ void add(Sums<kBlocks, kKeys>& scores, float to_log2, const Rescale& rescale) {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float largest = highest[m][half];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
          largest = fmaxf(largest, fmaxf(scores.tiles[m][n][2 * half], scores.tiles[m][n][2 * half + 1]));
        }
        largest = row_max(largest);
        const float base = largest == -INFINITY ? 0.0f : largest;  // a window may leave nothing of the first tile
        const float factor = exp2_fast((highest[m][half] - base) * to_log2);
        highest[m][half] = largest;
        const float shift = base * to_log2;
        float sum = total[m][half] * factor;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            scores.tiles[m][n][e] = exp2_fast(fmaf(scores.tiles[m][n][e], to_log2, -shift));
            sum += scores.tiles[m][n][e];
          }
        }
        total[m][half] = sum;
        rescale(m, half, factor);
      }
    }
  }
};

// Scores of queries from `i` and keys from `j` that must not count become `value`.
template <int kBlocks, int kKeys, typename Seen>
__device__ inline void mask_scores(Sums<kBlocks, kKeys>& scores, const Seen& seen_rows, int i, int j, float value) {
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int query = i + 16 * m + lane_group() + e / 2 * 8, key = j + 8 * n + 2 * lane_in_group() + e % 2;
        if (key >= seen_rows.problem.sequence || !seen_rows.sees(query, key)) scores.tiles[m][n][e] = value;
      }
    }
  }
}

// Weights of probabilities that dropout kills become 0.
template <int kBlocks, int kKeys, bool kDropout>
__device__ inline void drop_weights(Sums<kBlocks, kKeys>& weights, const AttentionDropout<kDropout>& dropout,
                                    const AttentionProblem& problem, std::int64_t task, int i, int j) {
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
    const std::int64_t row = problem.probability_row(task, i + 16 * m + lane_group());
    const std::int64_t row8 = row + std::int64_t{8} * problem.sequence;
#pragma unroll
    for (int n = 0; n < kKeys / 8; n += 4) {
      const std::uint32_t kept = keeps_by_query(dropout, row, row8, j + 8 * n);
#pragma unroll
      for (int bit = 0; bit < 16; ++bit) {
        if ((kept >> bit & 1u) == 0) weights.tiles[m][n + bit / 4][bit % 4] = 0;
      }
    }
  }
}

// Grid: tiles of queries x tasks, the longest rows first.
template <typename T, int kDim, int kBlocks, int kKeys, bool kDropout, bool kPacked>
__global__ __launch_bounds__(kThreads) void attention_forward(const AttentionProblem problem, const T* qkv,
                                                              const std::int32_t* documents, T* y, float* logsumexp,
                                                              const LaunchParameters* parameters) {
  using HeadRows = Rows<T, kDim>;
  constexpr int kQueries = ForwardShape<T, kDim, kBlocks, kKeys>::kQueries;
  constexpr int kTile = kKeys * HeadRows::kStride;
  T* const queries = dynamic_shared<T>();
  T* const keys = queries + kQueries * HeadRows::kStride;  // two tiles
  T* const values = keys + 2 * kTile;                      // two tiles

  const std::int64_t task = blockIdx.x % problem.tasks();
  const int tiles = (problem.sequence + kQueries - 1) / kQueries;
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x / problem.tasks())) * kQueries;
  const std::int64_t sequence_index = task / problem.heads;
  const int head = static_cast<int>(task % problem.heads), kv_head = head / problem.group();
  const int rows = min(kQueries, problem.sequence - first);
  const SeenRows<kPacked> seen_rows(problem, documents, sequence_index);
  const int seen = seen_rows.end(first + rows - 1);
  const std::int64_t stride = problem.qkv_stride();
  const T* const key = qkv + problem.key_offset(sequence_index, kv_head);
  const T* const value = qkv + problem.value_offset(sequence_index, kv_head);
  const AttentionDropout<kDropout> dropout(problem, parameters);
  const float to_log2 = problem.scale * 1.4426950408889634f;

  const auto load_keys = [&](int j, int stage) {
    HeadRows::template load<kKeys>(keys + stage * kTile, key + j * stride, stride, problem.sequence - j,
                                   problem.head_dim);
    HeadRows::template load<kKeys>(values + stage * kTile, value + j * stride, stride, problem.sequence - j,
                                   problem.head_dim);
    commit_copies();
  };
  HeadRows::template load<kQueries>(queries, qkv + problem.query_offset(sequence_index, head) + first * stride, stride,
                                    rows, problem.head_dim);
  const int begin = seen_rows.first(first) / kKeys * kKeys;
  load_keys(begin, 0);

  const int own = 16 * kBlocks * warp_index(), own_first = first + own;  // this warp's queries
  Sums<kBlocks, kDim> sums;
  OnlineSoftmax<kBlocks> softmax;
  sums.clear();
  for (int j = begin, stage = 0; j < seen; j += kKeys, stage ^= 1) {
    if (j + kKeys < seen) {
      load_keys(j + kKeys, stage ^ 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    if (j == begin) HeadRows::template round<kQueries>(queries);
    HeadRows::template round<kKeys>(keys + stage * kTile);
    HeadRows::template round<kKeys>(values + stage * kTile);
    __syncthreads();
    const int own_last = own_first + 16 * kBlocks - 1;
    if (j < seen_rows.end(own_last) && j + kKeys > seen_rows.first(own_first)) {
      Sums<kBlocks, kKeys> scores;
      HeadRows::template dot_products<kBlocks, kKeys>(
          scores, keys + stage * kTile,
          [&](std::uint32_t(&a)[4], int m, int k) { HeadRows::left(a, queries, own + 16 * m, k); });
      if (j + kKeys > problem.sequence || !seen_rows.sees(own_first, j + kKeys - 1) || !seen_rows.sees(own_last, j)) {
        mask_scores(scores, seen_rows, own_first, j, -INFINITY);
      }
      softmax.add(scores, to_log2, [&](int m, int half, float factor) {
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          sums.tiles[m][n][2 * half] *= factor;
          sums.tiles[m][n][2 * half + 1] *= factor;
        }
      });
      if (dropout.active()) drop_weights(scores, dropout, problem, task, own_first, j);
      HeadRows::template accumulate<kBlocks, kKeys>(sums, scores, values + stage * kTile);
    }
    __syncthreads();
  }

  float factors[kBlocks][2];
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum(softmax.total[m][half]);
      factors[m][half] = dropout.scale() / sum;
      const int row = own + 16 * m + 8 * half + lane_group();
      if (lane_in_group() == 0 && row < rows) {
        logsumexp[problem.logsumexp_offset(sequence_index, head) +
                  static_cast<std::int64_t>(first + row) * problem.heads] =
            softmax.highest[m][half] * problem.scale + logf(sum);
      }
    }
  }
  HeadRows::template store<kBlocks>(
      sums, [&](int m, int half) { return factors[m][half]; }, queries + own * HeadRows::kStride,
      y + problem.y_offset(sequence_index, head) + own_first * problem.y_stride(), problem.y_stride(), rows - own,
      problem.head_dim);
}

}  // namespace l2l::device::cuda::tensor
