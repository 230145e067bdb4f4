// The gradient of an embedding's table without atomics: rows sorted by token, cut into tiles, and each token's rows
// summed in ascending order within a tile, then over tiles. However often a token occurs, tiles are equally long.
#pragma once

#include <algorithm>

#include "device/kernels/common/floats.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/rows.cuh"
#include "device/kernels/token_sort.cuh"

namespace l2l::device::cuda {

inline constexpr int kTileRows = 64;
inline constexpr int kTableThreads = 128;

// A token whose rows lie in several tiles has a part in each: `heads` of the tiles that it enters from before, `tails`
// of the tile in which it begins.
template <typename T>
struct TableGradient {
  const TokenKey* keys;
  const T* dy;
  float *table, *heads, *tails;  // heads, tails: [tiles, hidden]
  std::int64_t rows, hidden;
  float factor;  // of dy

  __device__ std::uint32_t token(std::int64_t i) const { return i >= 0 && i < rows ? token_of(keys[i]) : kNoToken; }
};

// table[token] += sum of the token's rows, if all of them lie in this tile; else the sum goes to heads or tails. Moves
// one element of T per element of dy, and 8 bytes per element of a row of the table that occurs.
template <typename T, int Count>
__global__ void __launch_bounds__(kTableThreads) sum_tiles(TableGradient<T> gradient) {
  __shared__ std::uint32_t tokens[kTileRows], rows[kTileRows];
  const std::int64_t tile = blockIdx.x, begin = tile * kTileRows;
  const int count = static_cast<int>(min(static_cast<std::int64_t>(kTileRows), gradient.rows - begin));
  if (static_cast<int>(threadIdx.x) < count) {
    const TokenKey key = gradient.keys[begin + threadIdx.x];
    tokens[threadIdx.x] = token_of(key);
    rows[threadIdx.x] = row_of(key);
  }
  __syncthreads();
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kTableThreads + threadIdx.x) * Count;
  if (column >= gradient.hidden) return;
  const std::uint32_t before = gradient.token(begin - 1), after = gradient.token(begin + count);
  const auto leave = [&](std::uint32_t token, Floats<Count> sum) {
    if (token == kNoToken) return;
    if (token == before || token == after) {
      float* const parts = token == before ? gradient.heads : gradient.tails;
      return store_floats(parts + tile * gradient.hidden + column, sum);
    }
    float* const own = gradient.table + token * gradient.hidden + column;
    const Floats<Count> old = load_floats<Count>(own);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] = old[i] + sum[i];
    store_floats(own, sum);
  };
  constexpr int kAhead = 8;  // rows whose loads are under way at once
  std::uint32_t token = kNoToken;
  Floats<Count> sum{};
  for (int first = 0; first < count; first += kAhead) {
    Floats<Count> values[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k < count && tokens[first + k] != kNoToken) {
        values[k] = load_floats<Count>(gradient.dy + rows[first + k] * gradient.hidden + column);
      } else {
        values[k] = {};
      }
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k >= count) break;
      if (tokens[first + k] != token) {
        leave(token, sum);
        token = tokens[first + k];
        sum = {};
      }
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] = fmaf(values[k][i], gradient.factor, sum[i]);
    }
  }
  leave(token, sum);
}

// table[token] += tail and following heads, of each token that begins in this tile and goes on behind it.
template <typename T, int Count>
__global__ void __launch_bounds__(kTableThreads) join_tiles(TableGradient<T> gradient) {
  const std::int64_t tile = blockIdx.x, end = (tile + 1) * kTileRows;
  const std::uint32_t token = gradient.token(end - 1);
  if (token == kNoToken || end >= gradient.rows || gradient.token(end) != token) return;
  if (tile > 0 && gradient.token(tile * kTileRows - 1) == token) return;  // begins in an earlier tile
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kTableThreads + threadIdx.x) * Count;
  if (column >= gradient.hidden) return;
  Floats<Count> sum = load_floats<Count>(gradient.tails + tile * gradient.hidden + column);
#pragma unroll 4
  for (std::int64_t next = tile + 1; gradient.token(next * kTileRows) == token; ++next) {
    const Floats<Count> part = load_floats<Count>(gradient.heads + next * gradient.hidden + column);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] += part[i];
  }
  float* const own = gradient.table + token * gradient.hidden + column;
  const Floats<Count> old = load_floats<Count>(own);
#pragma unroll
  for (int i = 0; i < Count; ++i) sum[i] = old[i] + sum[i];
  store_floats(own, sum);
}

// kChunk: the table's first row is that of LaunchParameters::first_token.
template <typename T, bool kChunk>
class TableGradientSum {
 public:
  // dy [rows, hidden], times `factor`; a table of a row for each of `tokens`. Throws BadInput when rows do not fit 32
  // bits.
  TableGradientSum(std::int64_t rows, std::int64_t hidden, TableTokens tokens, float factor = 1)
      : rows_(rows), hidden_(hidden), tokens_(tokens), factor_(factor) {
    if (rows >= kNoToken || tokens.count >= kNoToken) throw BadInput("more than 2^32 - 2 rows or tokens");
  }

  Bytes workspace() const { return Parts(*this, nullptr).bytes; }

  void enqueue(const std::int32_t* tokens, const T* dy, float* table, const LaunchParameters* parameters,
               std::byte* workspace, cudaStream_t stream) const {
    const Parts parts(*this, workspace);
    TableGradient<T> gradient{nullptr, dy, table, parts.heads, parts.tails, rows_, hidden_, factor_};
    gradient.keys = enqueue_token_sort<kChunk>(tokens, rows_, tokens_, parameters, parts.keys, stream);
    if (rows_are_packed<T>(hidden_)) {
      enqueue_sums<kPack<T>>(gradient, stream);
    } else {
      enqueue_sums<1>(gradient, stream);
    }
  }

 private:
  struct Parts {
    std::byte* keys;
    float *heads, *tails;
    Bytes bytes;
    Parts(const TableGradientSum& sum, std::byte* workspace) {
      kernels::WorkspaceCutter cutter(workspace);
      keys = cutter.take<std::byte>(static_cast<std::int64_t>(token_sort_bytes(sum.rows_)));
      heads = cutter.take<float>(sum.tiles() * sum.hidden_);
      tails = cutter.take<float>(sum.tiles() * sum.hidden_);
      bytes = cutter.used();
    }
  };

  std::int64_t tiles() const { return ceil_div(rows_, kTileRows); }

  template <int Count>
  void enqueue_sums(const TableGradient<T>& gradient, cudaStream_t stream) const {
    const LaunchShape shape{dim3(static_cast<unsigned int>(tiles()), ceil_div(hidden_, kTableThreads * Count)),
                            kTableThreads};
    launch("sum_tiles", sum_tiles<T, Count>, shape, stream, gradient);
    if (tiles() > 1) launch("join_tiles", join_tiles<T, Count>, shape, stream, gradient);
  }

  std::int64_t rows_, hidden_;
  TableTokens tokens_;
  float factor_;  // of dy
};

}  // namespace l2l::device::cuda
