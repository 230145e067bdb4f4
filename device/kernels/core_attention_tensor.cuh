// Core attention on tensor cores, by the tiles of attention_tensor.cuh. Matrices of a task (core_attention.cuh) go
// between device memory and registers as they lie in the sums of products: probabilities and gradients of scores are
// rounded to T (fp32 to TF32) where they enter a product; sums are fp32.
#pragma once

#include <algorithm>

#include "device/kernels/attention_forward_tensor.cuh"
#include "device/kernels/core_attention.cuh"

namespace l2l::device::cuda::tensor {

// That a multiprocessor can hold at least: with registers for more, some kernels spill.
inline constexpr int kBlocksAtOnce = 2;

// A block owns kOwn rows of a head, each warp 16 kBlocks of them. Rows of the other side, queries or keys, arrive kTile
// at a time, the next ones while these are used.
template <int kDim, int kRowsOfTile>
struct CoreShape {
  static constexpr int kBlocks = kDim <= 64 ? 2 : 1;
  static constexpr int kWarpRows = 16 * kBlocks;
  static constexpr int kOwn = kWarpRows * kWarps;
  static constexpr int kTile = kRowsOfTile;
};

// Of kernels that make a matrix from rows, their own ones being in shared memory, too.
template <typename T, int kDim>
struct ToMatrix : CoreShape<kDim, std::is_same_v<T, float> ? 32 : 64> {
  static constexpr std::size_t kSharedBytes =
      (ToMatrix::kOwn + 2 * ToMatrix::kTile) * Rows<T, kDim>::kStride * sizeof(T);
};

// Of kernels that multiply a matrix with rows. Their sums leave through the memory of the tiles.
template <typename T, int kDim>
struct FromMatrix : CoreShape<kDim, 32> {
  static constexpr std::size_t kSharedBytes =
      std::max(FromMatrix::kOwn, 2 * FromMatrix::kTile) * Rows<T, kDim>::kStride * sizeof(T);
};

// Rows of one head in device memory, `stride` elements apart.
template <typename T>
struct HeadSource {
  const T* first;
  std::int64_t stride;
  int rows, head_dim;
};

// Tiles of kTile rows from `begin`, a multiple of kTile, to `end`, `rounds` times, each time `step` elements further:
// the heads of a group. Of two buffers in shared memory one arrives while the other is used. Per tile, all threads of
// the block call load_next(), await() and release(), in this order.
template <typename T, int kDim, int kTile>
struct TileStream {
  using HeadRows = Rows<T, kDim>;

  T* buffers;
  HeadSource<T> source;
  int begin, end, rounds, step;
  int round = 0, first = 0;  // of the current tile
  int stage = 0;

  __device__ TileStream(T* buffers, const HeadSource<T>& source, int begin, int end, int rounds, int step)
      : buffers(buffers), source(source), begin(begin), end(end), rounds(rounds), step(step), first(begin) {
    load(0, begin, 0);
  }

  __device__ bool more() const { return round < rounds; }

  __device__ void load_next() const {
    const bool wraps = first + kTile >= end;
    if (wraps && round + 1 == rounds) return commit_copies();  // none: await() counts groups
    load(wraps ? round + 1 : round, wraps ? begin : first + kTile, stage ^ 1);
  }

  // The current tile, once all of it is there.
  __device__ const T* await() const {
    wait_for_copies<1>();
    T* const tile = buffers + stage * kTile * HeadRows::kStride;
    HeadRows::template round<kTile>(tile);
    __syncthreads();
    return tile;
  }

  __device__ void release() {
    __syncthreads();
    const bool wraps = first + kTile >= end;
    round += wraps ? 1 : 0;
    first = wraps ? begin : first + kTile;
    stage ^= 1;
  }

 private:
  __device__ void load(int of_round, int row, int to) const {
    HeadRows::template load<kTile>(buffers + to * kTile * HeadRows::kStride,
                                   source.first + static_cast<std::int64_t>(of_round) * step + row * source.stride,
                                   source.stride, source.rows - row, source.head_dim);
    commit_copies();
  }
};

// Whether any of `queries` queries from `i` sees any of `keys` keys from `j`; whether all see all, none lying behind
// the sequence.
template <typename Seen>
__device__ inline bool any_seen(const Seen& seen_rows, int i, int queries, int j, int keys) {
  const int sequence = seen_rows.problem.sequence;
  return i < sequence && j < seen_rows.end(min(i + queries, sequence) - 1) && j + keys > seen_rows.first(i);
}
template <typename Seen>
__device__ inline bool all_seen(const Seen& seen_rows, int i, int queries, int j, int keys) {
  const int sequence = seen_rows.problem.sequence;
  return i + queries <= sequence && j + keys <= sequence && seen_rows.sees(i, j + keys - 1) &&
         seen_rows.sees(i + queries - 1, j);
}

// Neighbours in a row of a matrix: one access where rows have an even length.
template <typename T>
struct alignas(2 * sizeof(T)) Pair {
  T first, second;
};

// values = the matrix's elements of queries from `i` (rows) and keys from `j`, an even number; 0 where a query does not
// see a key, which is not read then. `all`: all_seen().
template <typename T, int kBlocks, int kKeys>
__device__ inline void load_by_query(Sums<kBlocks, kKeys>& values, const T* matrix, const AttentionProblem& problem,
                                     int i, int j, bool all) {
  const bool pairs = all && problem.sequence % 2 == 0;
  const auto each = [&](const auto& load) {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int query = i + 16 * m + 8 * half + lane_group(), key = j + 2 * lane_in_group();
        const T* const row = matrix + static_cast<std::int64_t>(query) * problem.sequence + key;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) load(values.tiles[m][n] + 2 * half, row + 8 * n, query, key + 8 * n);
      }
    }
  };
  if (pairs) {
    each([](float* to, const T* from, int, int) {
      const Pair<T> pair = *reinterpret_cast<const Pair<T>*>(from);
      to[0] = widen(pair.first);
      to[1] = widen(pair.second);
    });
  } else {
    each([&](float* to, const T* from, int query, int key) {
      to[0] = core::sees(problem, query, key) ? widen(from[0]) : 0.0f;
      to[1] = core::sees(problem, query, key + 1) ? widen(from[1]) : 0.0f;
    });
  }
}

// The same of the transpose: rows are keys from `j`, columns queries from `i`.
template <typename T, int kBlocks, int kQueries>
__device__ inline void load_by_key(Sums<kBlocks, kQueries>& values, const T* matrix, const AttentionProblem& problem,
                                   int i, int j, bool all) {
  const auto each = [&](const auto& load) {
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n) {
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int query = i + 8 * n + 2 * lane_in_group() + u, key = j + lane_group();
        const T* const row = matrix + static_cast<std::int64_t>(query) * problem.sequence + key;
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
          values.tiles[m][n][u] = load(row + 16 * m, query, key + 16 * m);
          values.tiles[m][n][2 + u] = load(row + 16 * m + 8, query, key + 16 * m + 8);
        }
      }
    }
  };
  if (all) {
    each([](const T* from, int, int) { return widen(*from); });
  } else {
    each([&](const T* from, int query, int key) { return core::sees(problem, query, key) ? widen(*from) : 0.0f; });
  }
}

// Writes values to the matrix's elements of queries from `i` and keys from `j` that lie in it.
template <typename T, int kBlocks, int kKeys>
__device__ inline void store_by_query(T* matrix, const Sums<kBlocks, kKeys>& values, int sequence, int i, int j) {
  const bool pairs = sequence % 2 == 0;
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = i + 16 * m + 8 * half + lane_group();
      if (query >= sequence) continue;
      T* const row = matrix + static_cast<std::int64_t>(query) * sequence;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        const int key = j + 8 * n + 2 * lane_in_group();
        const Pair<T> pair{narrow<T>(values.tiles[m][n][2 * half]), narrow<T>(values.tiles[m][n][2 * half + 1])};
        if (pairs) {
          if (key < sequence) *reinterpret_cast<Pair<T>*>(row + key) = pair;
        } else {
          if (key < sequence) row[key] = pair.first;
          if (key + 1 < sequence) row[key + 1] = pair.second;
        }
      }
    }
  }
}

// Zeros in columns [begin, end) of `rows` rows of a matrix from `i`, by a warp. Both are multiples of kPack<T> where
// the row's length is.
template <typename T>
__device__ inline void clear_columns(T* matrix, int sequence, int i, int rows, int begin, int end) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  Pack<T> zeros;
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k) zeros.elements[k] = narrow<T>(0.0f);
  for (int row = i; row < min(i + rows, sequence); ++row) {
    T* const own = matrix + static_cast<std::int64_t>(row) * sequence;
    if (sequence % kPack<T> == 0) {
      for (int j = begin + lane * kPack<T>; j < end; j += 32 * kPack<T>) store_pack(own + j, zeros);
    } else {
      for (int j = begin + lane; j < end; j += 32) own[j] = zeros.elements[0];
    }
  }
}

// Zeros in the rows of a warp outside of the tiles that any_seen() has for it.
template <int kTile, typename T, typename Seen>
__device__ inline void clear_unseen(T* matrix, const Seen& seen_rows, int i, int rows) {
  const int sequence = seen_rows.problem.sequence;
  if (i >= sequence) return;
  const int end = seen_rows.end(min(i + rows, sequence) - 1);
  clear_columns(matrix, sequence, i, rows, 0, seen_rows.first(i) / kTile * kTile);
  clear_columns(matrix, sequence, i, rows, min(sequence, (end + kTile - 1) / kTile * kTile), sequence);
}

// The kernel that serves heads of `dim` elements, up to 128, which kernel_for.operator()<kDim>() returns. `Shape`:
// ToMatrix or FromMatrix.
template <typename T, template <typename, int> typename Shape>
auto part_for(int dim, const auto& kernel_for) {
  const auto part_of = [&]<int kDim>() {
    using Own = Shape<T, kDim>;
    auto* const kernel = kernel_for.template operator()<kDim>();
    allow_shared_memory(kernel, Own::kSharedBytes);
    return core::Part<std::remove_pointer_t<decltype(kernel)>>{kernel, Own::kOwn, kThreads, Own::kSharedBytes};
  };
  if (dim <= 32) return part_of.template operator()<32>();
  if (dim <= 64) return part_of.template operator()<64>();
  if (dim <= 96) return part_of.template operator()<96>();
  return part_of.template operator()<128>();
}

}  // namespace l2l::device::cuda::tensor
