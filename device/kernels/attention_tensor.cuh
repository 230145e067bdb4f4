// What the tensor-core attention kernels share: tiles of rows in shared memory and products of them, which a warp does
// on rows of its own: by m16n8k16 where elements have 16 bits, by m16n8k8 where they are fp32 that becomes TF32
// (device/kernels/common/ptx.cuh). to_tf32() rounds each factor: what comes from device memory once, when it has
// arrived in shared memory, and what was computed when it enters a product.
#pragma once

#include <type_traits>

#include "device/kernels/attention_dropout.cuh"
#include "device/kernels/attention_problem.h"
#include "device/kernels/common/convert.cuh"
#include "device/kernels/common/ptx.cuh"

namespace l2l::device::cuda::tensor {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = 32 * kWarps;

// Whether these kernels serve elements of type T: 16-bit ones, and fp32 where it may become TF32.
template <typename T>
bool takes(const AttentionProblem& problem, bool tf32) {
  const bool type = tf32 || !std::is_same_v<T, float>;
  return type && problem.vector && problem.cap == 0 && problem.head_dim <= 128;
}

// For people.
inline std::string name_of_kernels(const AttentionProblem& problem, DType dtype, bool tf32) {
  const bool taken = dtype == DType::f32 ? takes<float>(problem, tf32) : takes<__half>(problem, tf32);
  return taken ? "our kernels on tensor cores" : "our kernels without tensor cores";
}

__device__ inline int lane_group() { return static_cast<int>(threadIdx.x % 32) / 4; }  // g of ptx.cuh
__device__ inline int lane_in_group() { return static_cast<int>(threadIdx.x % 4); }    // t
__device__ inline int warp_index() { return static_cast<int>(threadIdx.x / 32); }

// Columns of the left factor of multiply_add<T>: 32 bytes.
template <typename T>
inline constexpr int kDepth = 32 / static_cast<int>(sizeof(T));

// Two values as neighbours in a register, `first` in the low half.
template <typename T>
__device__ inline std::uint32_t pack(float first, float second) {
  std::uint32_t bits;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    static_assert(sizeof pair == sizeof bits);
    memcpy(&bits, &pair, sizeof bits);
  } else {
    const __half2 pair = __floats2half2_rn(first, second);
    static_assert(sizeof pair == sizeof bits);
    memcpy(&bits, &pair, sizeof bits);
  }
  return bits;
}

// fp32 sums of a warp: kBlocks blocks of 16 rows by kColumns. Element e of tile n of block m is row
// 16 m + g + 8 (e / 2), column 8 n + 2 t + e % 2.
template <int kBlocks, int kColumns>
struct Sums {
  float tiles[kBlocks][kColumns / 8][4];

  __device__ void clear() {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) tiles[m][n][e] = 0;
      }
    }
  }

  // The kDepth<T> columns of step k of block m, rounded to T (of fp32, to TF32), as the left factor of the next
  // product. TF32 wants columns t and t + 4 where a lane has 2 t and 2 t + 1: these stand in for them, and the rows of
  // the right factor change places in the same way (Rows::load_transposed), which leaves the product as it is.
  template <typename T>
  __device__ void as_left(std::uint32_t (&a)[4], int m, int k) const {
    if constexpr (std::is_same_v<T, float>) {
#pragma unroll
      for (int q = 0; q < 4; ++q) a[q] = __float_as_uint(to_tf32(tiles[m][k][q % 2 * 2 + q / 2]));
    } else {
      a[0] = pack<T>(tiles[m][2 * k][0], tiles[m][2 * k][1]);
      a[1] = pack<T>(tiles[m][2 * k][2], tiles[m][2 * k][3]);
      a[2] = pack<T>(tiles[m][2 * k + 1][0], tiles[m][2 * k + 1][1]);
      a[3] = pack<T>(tiles[m][2 * k + 1][2], tiles[m][2 * k + 1][3]);
    }
  }
};

// Rows of a head in shared memory, zeros behind head_dim; in device memory heads begin on 16 bytes. The eight rows of a
// matrix lie in different banks, so that loads of fragments and 16-byte copies have no conflicts: 16-bit rows are 16
// bytes apart modulo 128; fp32 rows, for which shared memory is scarce, have no gaps: their 16-byte chunks change
// places instead, by the last three bits of the row.
template <typename T, int kDim>
struct Rows {
  static constexpr bool kTf32 = std::is_same_v<T, float>;
  static constexpr int kStride = kTf32 ? kDim : kDim + 8;
  static_assert(kTf32 ? kDim % 32 == 0 : kDim % 16 == 0 && (kStride * sizeof(T) / 16) % 2 == 1);
  static constexpr int kChunks = kDim / kPack<T>;

  // Where in a row its element `column` is.
  __device__ static int place(int row, int column) { return kTf32 ? column ^ (row & 7) * 4 : column; }

  // Begins to load `kRows` rows, `stride` elements apart in device memory; zeros behind `valid` rows and head_dim
  // columns. Visible after wait_for_copies() and a barrier.
  template <int kRows>
  __device__ static void load(T* rows, const T* source, std::int64_t stride, int valid, int head_dim) {
    static_assert(kRows * kChunks % kThreads == 0);
    const int row_stride = static_cast<int>(stride);  // offsets within a tile fit 32 bits
#pragma unroll 2
    for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
      const int chunk = i * kThreads + static_cast<int>(threadIdx.x);
      const int row = chunk / kChunks, d = chunk % kChunks * kPack<T>;
      const bool inside = row < valid && d < head_dim;
      copy_async<16>(rows + row * kStride + place(row, d), source + (inside ? row * row_stride + d : 0), inside);
    }
  }

  // Rounds what this thread has loaded of fp32 rows; after wait_for_copies(), before the barrier.
  template <int kRows>
  __device__ static void round(T* rows) {
    if constexpr (kTf32) {
#pragma unroll 4
      for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
        const int chunk = i * kThreads + static_cast<int>(threadIdx.x);
        const int row = chunk / kChunks;
        T* const own = rows + row * kStride + place(row, chunk % kChunks * kPack<T>);
        Pack<T> pack = load_pack(own);
#pragma unroll
        for (int k = 0; k < kPack<T>; ++k) pack.elements[k] = to_tf32(pack.elements[k]);
        store_pack(own, pack);
      }
    }
  }

  // Left factor [16 rows from `row`, a multiple of 16][kDepth<T> columns of step k].
  __device__ static void left(std::uint32_t (&a)[4], const T* rows, int row, int k) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const T* const own = rows + (row + lane % 16) * kStride;
    if constexpr (kTf32) {
      load_matrices(a, own + place(lane, 8 * k + lane / 16 * 4));
    } else {
      load_matrices(a, own + 16 * k + lane / 16 * 8);
    }
  }

  // What load_matrices_transposed() is for 16-bit rows: of fp32 rows 8 k to 8 k + 7, in the order of Sums::as_left(),
  // two right factors: columns from 16 n and the next eight. For each register a warp reads all 32 banks once.
  __device__ static void load_transposed(std::uint32_t (&b)[4], const float* rows, int k, int n) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int row = 8 * k + 2 * lane_in_group() + q % 2, column = 16 * n + q / 2 * 8 + lane_group();
      b[q] = __float_as_uint(rows[row * kStride + place(row, column)]);
    }
  }

  // result = left [kBlocks * 16 rows] times right [kRightRows]^T: dot products of rows. `fragment(a, m, k)` gives the
  // left factor.
  template <int kBlocks, int kRightRows, typename Fragment>
  __device__ static void dot_products(Sums<kBlocks, kRightRows>& result, const T* right, Fragment fragment) {
    result.clear();
    const int lane = static_cast<int>(threadIdx.x % 32), column = lane / 8 % 2 * kPack<T>;
    const T* const own = right + (lane / 16 * 8 + lane % 8) * kStride + (kTf32 ? 0 : column);
#pragma unroll
    for (int k = 0; k < kDim / kDepth<T>; ++k) {
      std::uint32_t a[kBlocks][4];
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) fragment(a[m], m, k);
#pragma unroll
      for (int n = 0; n < kRightRows / 16; ++n) {
        std::uint32_t b[4];
        load_matrices(b, own + 16 * n * kStride + (kTf32 ? place(lane, 8 * k + column) : 16 * k));
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
          multiply_add<T>(result.tiles[m][2 * n], a[m], b[0], b[1]);
          multiply_add<T>(result.tiles[m][2 * n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  // sums += weights [kBlocks * 16 rows][kWeights] times right [kWeights rows][kDim], weights rounded to T, or TF32.
  template <int kBlocks, int kWeights>
  __device__ static void accumulate(Sums<kBlocks, kDim>& sums, const Sums<kBlocks, kWeights>& weights, const T* right) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    [[maybe_unused]] const T* const own = right + (lane / 8 % 2 * 8 + lane % 8) * kStride + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < kWeights / kDepth<T>; ++k) {
      std::uint32_t a[kBlocks][4];
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) weights.template as_left<T>(a[m], m, k);
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        std::uint32_t b[4];
        if constexpr (kTf32) {
          load_transposed(b, right, k, n);
        } else {
          load_matrices_transposed(b, own + 16 * k * kStride + 16 * n);
        }
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
          multiply_add<T>(sums.tiles[m][2 * n], a[m], b[0], b[1]);
          multiply_add<T>(sums.tiles[m][2 * n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  // Writes a warp's sums times `factor(m, half)` (of row 16 m + g + 8 half) to device memory, through its own rows of
  // shared memory `staging`, which nobody else may use any more.
  template <int kBlocks, typename Factor>
  __device__ static void store(const Sums<kBlocks, kDim>& sums, Factor factor, T* staging, T* destination,
                               std::int64_t stride, int valid, int head_dim) {
    __syncwarp();
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float scale = factor(m, half);
        T* const to = staging + (16 * m + 8 * half + lane_group()) * kStride;
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          const float first = sums.tiles[m][n][2 * half] * scale, second = sums.tiles[m][n][2 * half + 1] * scale;
          if constexpr (kTf32) {
            T* const pair = to + place(lane_group(), 8 * n + 2 * lane_in_group());
            *reinterpret_cast<float2*>(pair) = make_float2(first, second);
          } else {
            const std::uint32_t pair = pack<T>(first, second);
            *reinterpret_cast<std::uint32_t*>(to + 2 * lane_in_group() + 8 * n) = pair;
          }
        }
      }
    }
    __syncwarp();
    const int lane = static_cast<int>(threadIdx.x % 32);
    for (int chunk = lane; chunk < 16 * kBlocks * kChunks; chunk += 32) {
      const int row = chunk / kChunks, d = chunk % kChunks * kPack<T>;
      if (row >= valid || d >= head_dim) continue;
      store_pack(destination + row * stride + d, load_pack(staging + row * kStride + place(row, d)));
    }
  }
};

// Which elements of four neighbouring tiles dropout keeps: bit 4 n + e for element e of tile n (Sums, above). All lanes
// call it. Here rows are queries, columns the 32 keys from `j`; `row_of_i` is the dropout element of key 0 for the
// lane's row g, and `row_of_i8` for g + 8.
template <bool kDropout>
__device__ inline std::uint32_t keeps_by_query(const AttentionDropout<kDropout>& dropout, std::int64_t row_of_i,
                                               std::int64_t row_of_i8, int j) {
  const int t = lane_in_group();
  std::uint32_t bits = 0;
  if (!dropout.shares()) {
#pragma unroll 1
    for (int i = 0; i < 16; ++i) {  // i = 4 n + e
      const std::int64_t element = (i % 4 < 2 ? row_of_i : row_of_i8) + j + i / 4 * 8 + 2 * t + i % 2;
      bits |= (dropout.keeps(element) ? 1u : 0u) << i;
    }
    return bits;
  }
  // Four lanes hold 32 keys of two queries, which are four blocks: lane t draws that of row g + 8 (t % 2) and of the
  // keys from 16 (t / 2).
  const std::uint32_t drawn = dropout.keeps_block((t % 2 == 0 ? row_of_i : row_of_i8) + j + t / 2 * 16);
  const std::uint32_t other = __shfl_xor_sync(0xffffffff, drawn, 1);
  const std::uint32_t near = t % 2 == 0 ? drawn | other << 16 : other | drawn << 16;  // row g, then row g + 8
  const std::uint32_t far = __shfl_xor_sync(0xffffffff, near, 2);
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const std::uint32_t rows = (n / 2 == t / 2 ? near : far) >> (n % 2 * 8 + 2 * t);
    bits |= ((rows & 3u) | (rows >> 14 & 12u)) << (4 * n);
  }
  return bits;
}

// The same where rows are the 16 keys from `j`, and columns 32 queries, of whose first `row_of_i` is the dropout
// element of key 0.
template <bool kDropout>
__device__ inline std::uint32_t keeps_by_key(const AttentionDropout<kDropout>& dropout, std::int64_t row_of_i,
                                             int sequence, int j) {
  const int g = lane_group(), t = lane_in_group();
  // Of the query in column 2 t + i % 2 of tile i / 2, and key j.
  const auto element = [&](int i) {
    return row_of_i + static_cast<std::int64_t>(i / 2 * 8 + 2 * t + i % 2) * sequence + j;
  };
  std::uint32_t bits = 0;
  if (!dropout.shares()) {
#pragma unroll 1
    for (int i = 0; i < 8; ++i) {
      const std::int64_t first = element(i) + g;
      const std::uint32_t kept = (dropout.keeps(first) ? 1u : 0u) | (dropout.keeps(first + 8) ? 4u : 0u);
      bits |= kept << (i / 2 * 4 + i % 2);
    }
    return bits;
  }
  // Eight lanes hold the keys of eight queries, which are as many blocks: lane g draws the one of its query g.
  const std::uint32_t drawn = dropout.keeps_block(element(g));
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t keys = __shfl_sync(0xffffffff, drawn, 4 * i + t) >> g;
    bits |= ((keys & 1u) | (keys >> 6 & 4u)) << (i / 2 * 4 + i % 2);
  }
  return bits;
}

// Over the four lanes that share a row.
__device__ inline float row_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffff, value, 2));
}

__device__ inline float row_sum(float value) {
  value += __shfl_xor_sync(0xffffffff, value, 1);
  return value + __shfl_xor_sync(0xffffffff, value, 2);
}

}  // namespace l2l::device::cuda::tensor
