// What the plain attention kernels share: 256 threads as 16 x 16, fp32 copies of tiles in shared memory, products by
// fused multiply-adds. They serve fp32, capped scores, and of 16-bit types heads wider than 128 or not a multiple of 16
// bytes.
#pragma once

#include "device/kernels/attention_dropout.cuh"
#include "device/kernels/attention_problem.h"
#include "device/kernels/common/convert.cuh"

namespace l2l::device::cuda::plain {

inline constexpr int kThreads = 256;
inline constexpr int kSide = 16;

// Which tile of which head a block owns.
struct Place {
  std::int64_t task;      // sequence index * heads + head
  std::int64_t sequence;  // index
  int head, kv_head;
  int first, rows;  // of the sequence; rows < kTile in the last tile alone
};

// Grid: tiles of queries x tasks, the longest rows first.
template <int kTile>
__device__ inline Place place_of_queries(const AttentionProblem& problem) {
  Place place;
  place.task = blockIdx.x % problem.tasks();
  place.sequence = place.task / problem.heads;
  place.head = static_cast<int>(place.task % problem.heads);
  place.kv_head = place.head / problem.group();
  const int tiles = (problem.sequence + kTile - 1) / kTile;
  place.first = (tiles - 1 - static_cast<int>(blockIdx.x / problem.tasks())) * kTile;
  place.rows = min(kTile, problem.sequence - place.first);
  return place;
}

// Grid: tiles of keys x (sequences x heads of keys). Head and task are those of the first query that shares them.
template <int kTile>
__device__ inline Place place_of_keys(const AttentionProblem& problem) {
  Place place;
  const std::int64_t pairs = problem.sequences * problem.kv_heads, pair = blockIdx.x % pairs;
  place.sequence = pair / problem.kv_heads;
  place.kv_head = static_cast<int>(pair % problem.kv_heads);
  place.head = place.kv_head * problem.group();
  place.task = place.sequence * problem.heads + place.head;
  place.first = static_cast<int>(blockIdx.x / pairs) * kTile;
  place.rows = min(kTile, problem.sequence - place.first);
  return place;
}

// Elements of T, kTile rows of a tile of queries and as many keys, heads padded with zeros to kDim.
template <typename T, int kDim, int kTile>
struct Tile {
  static constexpr int kPer = kTile / kSide;  // rows and columns of scores per thread
  static constexpr int kWide = kDim / kSide;  // columns of a head per thread
  static constexpr int kStride = kDim + 4;    // 16-byte rows in different banks
  static constexpr int kScoreStride = kTile + 4;
  static constexpr int kElements = kTile * kStride;
  static constexpr int kScores = kTile * kScoreStride;

  // Rows of one head from device memory, `stride` elements apart; zeros behind `valid` rows and head_dim columns.
  __device__ static void load(float* tile, const T* source, std::int64_t stride, int valid, int head_dim) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDim; i += kThreads) {
      const int row = i / kDim, d = i % kDim;
      const bool inside = row < valid && d < head_dim;
      tile[row * kStride + d] = inside ? widen(source[row * stride + d]) : 0.0f;
    }
  }

  // result[r][c] = row (ty * kPer + r) of `a` times row (tx + 16 c) of `b`.
  __device__ static void products(float (&result)[kPer][kPer], const float* a, const float* b) {
    const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
#pragma unroll
    for (int r = 0; r < kPer; ++r) {
#pragma unroll
      for (int c = 0; c < kPer; ++c) result[r][c] = 0;
    }
    for (int d = 0; d < kDim; d += 4) {
      float4 left[kPer], right[kPer];
#pragma unroll
      for (int r = 0; r < kPer; ++r) {
        left[r] = *reinterpret_cast<const float4*>(a + (ty * kPer + r) * kStride + d);
        right[r] = *reinterpret_cast<const float4*>(b + (tx + kSide * r) * kStride + d);
      }
#pragma unroll
      for (int r = 0; r < kPer; ++r) {
#pragma unroll
        for (int c = 0; c < kPer; ++c) {
          float sum = fmaf(left[r].x, right[c].x, result[r][c]);
          sum = fmaf(left[r].y, right[c].y, sum);
          sum = fmaf(left[r].z, right[c].z, sum);
          result[r][c] = fmaf(left[r].w, right[c].w, sum);
        }
      }
    }
  }

  // sums[r][u] += row (ty * kPer + r) of `weights` times column (tx + 16 u) of `b`; of its transpose when kTransposed.
  template <bool kTransposed>
  __device__ static void accumulate(float (&sums)[kPer][kWide], const float* weights, const float* b) {
    const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
    for (int j = 0; j < kTile; ++j) {
      float weight[kPer];
#pragma unroll
      for (int r = 0; r < kPer; ++r) {
        const int row = ty * kPer + r;
        weight[r] = weights[kTransposed ? j * kScoreStride + row : row * kScoreStride + j];
      }
#pragma unroll
      for (int u = 0; u < kWide; ++u) {
        const float value = b[j * kStride + tx + kSide * u];
#pragma unroll
        for (int r = 0; r < kPer; ++r) sums[r][u] = fmaf(weight[r], value, sums[r][u]);
      }
    }
  }

  __device__ static void clear(float (&sums)[kPer][kWide]) {
#pragma unroll
    for (int r = 0; r < kPer; ++r) {
#pragma unroll
      for (int u = 0; u < kWide; ++u) sums[r][u] = 0;
    }
  }

  // Writes sums[r] times factors[r].
  __device__ static void store(T* destination, std::int64_t stride, int valid, int head_dim,
                               const float (&sums)[kPer][kWide], const float (&factors)[kPer]) {
    const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
#pragma unroll
    for (int r = 0; r < kPer; ++r) {
      const int row = ty * kPer + r;
      if (row >= valid) continue;
#pragma unroll
      for (int u = 0; u < kWide; ++u) {
        const int d = tx + kSide * u;
        if (d < head_dim) destination[row * stride + d] = narrow<T>(sums[r][u] * factors[r]);
      }
    }
  }

  // Bit kPer r + c: whether this thread's probability of query `i` + r and key j + tx + 16 c is kept; `row_of_i`: the
  // dropout element of query i and key 0, j a multiple of 16. All lanes call it.
  __device__ static std::uint32_t keeps(const AttentionDropout<true>& dropout, std::int64_t row_of_i, int sequence,
                                        int j) {
    const int tx = threadIdx.x % kSide;
    const auto element = [&](int i) {
      return row_of_i + static_cast<std::int64_t>(i / kPer) * sequence + j + i % kPer * kSide;
    };
    std::uint32_t bits = 0;
    if (!dropout.shares()) {
#pragma unroll 1
      for (int i = 0; i < kPer * kPer; ++i) bits |= (dropout.keeps(element(i) + tx) ? 1u : 0u) << i;
      return bits;
    }
    // The lanes of 16 keys: each draws one of the blocks.
    const std::uint32_t drawn = tx < kPer * kPer ? dropout.keeps_block(element(tx)) : 0;
#pragma unroll
    for (int i = 0; i < kPer * kPer; ++i) {
      bits |= (__shfl_sync(0xffffffff, drawn, i, kSide) >> tx & 1u) << i;
    }
    return bits;
  }
};

// A score before it is scaled, capped; and the derivative of the cap where it gives `capped`.
__device__ inline float cap_score(const AttentionProblem& problem, float score) {
  return problem.cap > 0 ? problem.cap * tanhf(score / problem.cap) : score;
}
__device__ inline float cap_slope(const AttentionProblem& problem, float capped) {
  if (problem.cap == 0) return 1.0f;
  const float share = capped / problem.cap;
  return 1.0f - share * share;
}

// Over the 16 lanes that share a row.
__device__ inline float row_max(float value) {
#pragma unroll
  for (int mask = 8; mask > 0; mask /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, mask));
  return value;
}

__device__ inline float row_sum(float value) {
#pragma unroll
  for (int mask = 8; mask > 0; mask /= 2) value += __shfl_xor_sync(0xffffffff, value, mask);
  return value;
}

}  // namespace l2l::device::cuda::plain
