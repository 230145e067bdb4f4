// Rows in ascending order of token, of equal tokens in ascending order of row: a merge sort of (token, row), whose keys
// are all different. The result depends on the tokens alone.
#pragma once

#include <utility>

#include "device/kernels/common/cuda_kernel.h"
#include "device/kernels/common/launch.cuh"

namespace l2l::device::cuda {

using TokenKey = std::uint64_t;  // token << 32 | row

inline constexpr TokenKey kNoKey = ~TokenKey{0};
inline constexpr int kSortTile = 512;

// Keys of a token that is no row of the table: behind all others.
inline constexpr std::uint32_t kNoToken = 0xFFFFFFFFu;

__device__ inline std::uint32_t token_of(TokenKey key) { return static_cast<std::uint32_t>(key >> 32); }
__device__ inline std::uint32_t row_of(TokenKey key) { return static_cast<std::uint32_t>(key); }

// Which tokens are rows of the table: `count` from `first` on, and where kChunk, from LaunchParameters::first_token
// further on.
struct TableTokens {
  std::int64_t count, first = 0;
};

template <bool kChunk>
__device__ inline TokenKey key_of(const std::int32_t* tokens, std::int64_t row, TableTokens table,
                                  const LaunchParameters* parameters) {
  const std::int64_t token = tokens[row] - table.first - (kChunk ? parameters->first_token : 0);
  const bool known = token >= 0 && token < table.count;
  return static_cast<TokenKey>(known ? static_cast<std::uint32_t>(token) : kNoToken) << 32 |
         static_cast<std::uint32_t>(row);
}

// Sorts tiles of kSortTile rows: a key's place is the number of smaller ones in its tile.
template <bool kChunk>
__global__ void __launch_bounds__(kSortTile)
    sort_tiles(const std::int32_t* tokens, std::int64_t rows, TableTokens table, const LaunchParameters* parameters,
               TokenKey* keys) {
  __shared__ TokenKey tile[kSortTile];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kSortTile, row = begin + threadIdx.x;
  const TokenKey own = row < rows ? key_of<kChunk>(tokens, row, table, parameters) : kNoKey;
  tile[threadIdx.x] = own;
  __syncthreads();
  if (row >= rows) return;
  int place = 0;
#pragma unroll 16
  for (int i = 0; i < kSortTile; ++i) place += tile[i] < own ? 1 : 0;
  keys[begin + place] = own;
}

inline constexpr int kMergeThreads = 256;

// Merges neighbouring sorted runs of `run` keys: a key's place is its place in its own run and the number of smaller
// ones in the other.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    merge_runs(const TokenKey* from, TokenKey* to, std::int64_t rows, std::int64_t run) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= rows) return;
  const TokenKey key = from[i];
  const std::int64_t own = i / run * run, pair = i / (2 * run) * (2 * run);
  const std::int64_t other = own == pair ? min(rows, pair + run) : pair, end = min(rows, other + run);
  std::int64_t low = other, high = end;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (from[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  to[pair + (i - own) + (low - other)] = key;
}

// Bytes of the two arrays that a sort of `rows` rows goes between.
constexpr Bytes token_sort_bytes(std::int64_t rows) { return 2 * static_cast<Bytes>(rows) * sizeof(TokenKey); }

// Returns the sorted keys, which lie in `workspace`. Each pass moves 16 bytes per row; there are log2(rows / 512).
template <bool kChunk>
const TokenKey* enqueue_token_sort(const std::int32_t* tokens, std::int64_t rows, TableTokens table,
                                   const LaunchParameters* parameters, std::byte* workspace, cudaStream_t stream) {
  auto* keys = reinterpret_cast<TokenKey*>(workspace);
  TokenKey* other = keys + rows;
  launch("sort_tiles", sort_tiles<kChunk>, {ceil_div(rows, kSortTile), kSortTile}, stream, tokens, rows, table,
         parameters, keys);
  for (std::int64_t run = kSortTile; run < rows; run *= 2) {
    launch("merge_runs", merge_runs<kMergeThreads>, {ceil_div(rows, kMergeThreads), kMergeThreads}, stream,
           static_cast<const TokenKey*>(keys), other, rows, run);
    std::swap(keys, other);
  }
  return keys;
}

}  // namespace l2l::device::cuda
