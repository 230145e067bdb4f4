// Stands in for device/kernels/common/ptx.cuh where kernels are emulated. Who holds which element of a matrix is
// written here a second time, from the PTX ISA's own words (section "Matrix Fragments for mma.m16n8k16 with floating
// point type", "... for mma.m16n8k8" and "ldmatrix"), as formulas of the element index: a kernel that has it wrong
// computes wrong numbers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/emulation/async_copies.h"
#include "tests/emulation/engine.h"
#include "tests/emulation/tf32.h"

namespace l2l::emulation {

// What one lane brings to mma: elements a0..a7 and b0..b3.
struct FactorFragments {
  std::uint16_t a[8], b[4];
};

template <typename T>
float element_of(std::uint16_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return static_cast<float>(value);
}

template <typename T>
void warp_multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  FactorFragments own;
  const std::uint32_t b[2] = {b0, b1};
  for (int i = 0; i < 8; ++i) own.a[i] = static_cast<std::uint16_t>(a[i / 2] >> 16 * (i % 2));
  for (int i = 0; i < 4; ++i) own.b[i] = static_cast<std::uint16_t>(b[i / 2] >> 16 * (i % 2));
  const std::byte* const slots = warp_exchange("mma.sync.m16n8k16", &own, sizeof own);
  const auto fragments = [slots](int lane) -> const FactorFragments& {
    return *reinterpret_cast<const FactorFragments*>(slots + static_cast<std::size_t>(lane) * kSlotBytes);
  };
  // A: row = groupID for i = 0, 1, 4, 5, else groupID + 8; column = 2 threadID_in_group + (i & 1), + 8 for i >= 4.
  const auto a_at = [&](int row, int column) {
    const int lane = row % 8 * 4 + column % 8 / 2, i = column % 2 + (row >= 8 ? 2 : 0) + (column >= 8 ? 4 : 0);
    return element_of<T>(fragments(lane).a[i]);
  };
  // B: row = 2 threadID_in_group + (i & 1), + 8 for i >= 2; column = groupID.
  const auto b_at = [&](int row, int column) {
    const int lane = column * 4 + row % 8 / 2, i = row % 2 + (row >= 8 ? 2 : 0);
    return element_of<T>(fragments(lane).b[i]);
  };
  // C: row = groupID for i < 2, else groupID + 8; column = 2 threadID_in_group + (i & 1).
  const int group = lane() / 4, in_group = lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = i < 2 ? group : group + 8, column = 2 * in_group + i % 2;
    for (int k = 0; k < 16; ++k) c[i] = std::fma(a_at(row, k), b_at(k, column), c[i]);
  }
}

// What one lane brings to mma of TF32: elements a0..a3, b0 and b1.
struct Tf32Fragments {
  float a[4], b[2];
};

// The value of a register, which mma reads as TF32.
inline float tf32_element(std::uint32_t bits) {
  if (!is_tf32(bits)) throw Fault("mma.sync.m16n8k8: a factor is not TF32");
  return std::bit_cast<float>(bits);
}

// Products of factors with 11 significant bits are exact; their sum is rounded to fp32 after each.
inline void warp_multiply_add_tf32(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  Tf32Fragments own;
  for (int i = 0; i < 4; ++i) own.a[i] = tf32_element(a[i]);
  own.b[0] = tf32_element(b0);
  own.b[1] = tf32_element(b1);
  const std::byte* const slots = warp_exchange("mma.sync.m16n8k8", &own, sizeof own);
  const auto fragments = [slots](int lane) -> const Tf32Fragments& {
    return *reinterpret_cast<const Tf32Fragments*>(slots + static_cast<std::size_t>(lane) * kSlotBytes);
  };
  // A: row = groupID for a0 and a2, groupID + 8 for a1 and a3; column = threadID_in_group for a0 and a1, + 4 for a2
  // and a3.
  const auto a_at = [&](int row, int column) {
    return fragments(row % 8 * 4 + column % 4).a[(row >= 8 ? 1 : 0) + (column >= 4 ? 2 : 0)];
  };
  // B: row = threadID_in_group for b0, + 4 for b1; column = groupID.
  const auto b_at = [&](int row, int column) { return fragments(column * 4 + row % 4).b[row >= 4 ? 1 : 0]; };
  // C: as of m16n8k16.
  const int group = lane() / 4, in_group = lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = i < 2 ? group : group + 8, column = 2 * in_group + i % 2;
    for (int k = 0; k < 8; ++k) c[i] = std::fma(a_at(row, k), b_at(k, column), c[i]);
  }
}

// ldmatrix .x4: lanes 0-7 give the rows of matrix 0, 8-15 those of matrix 1, and so on; a lane receives two neighbours,
// elements 2 (lane % 4) and the next of row lane / 4; with .trans, of column lane / 4.
inline void warp_load_matrices(std::uint32_t (&registers)[4], const void* row, bool transposed) {
  need_alignment("ldmatrix", row, 16);
  const std::byte* const slots = warp_exchange(transposed ? "ldmatrix.trans" : "ldmatrix", &row, sizeof row);
  for (int matrix = 0; matrix < 4; ++matrix) {
    std::uint16_t pair[2];
    for (int k = 0; k < 2; ++k) {
      const int from_row = transposed ? 2 * (lane() % 4) + k : lane() / 4;
      const int column = transposed ? lane() / 4 : 2 * (lane() % 4) + k;
      const auto* const elements = of_lane<const std::uint16_t*>(slots, 8 * matrix + from_row);
      std::memcpy(&pair[k], elements + column, sizeof pair[k]);
    }
    registers[matrix] = pair[0] | static_cast<std::uint32_t>(pair[1]) << 16;
  }
  // Nobody may write what others still read.
  warp_exchange("ldmatrix, done", nullptr, 0);
}

}  // namespace l2l::emulation

namespace l2l::device::cuda {

template <typename T>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<T, float>) {
    emulation::warp_multiply_add_tf32(c, a, b0, b1);
  } else {
    emulation::warp_multiply_add<T>(c, a, b0, b1);
  }
}

inline float to_tf32(float value) { return emulation::to_tf32(value); }

inline void load_matrices(std::uint32_t (&registers)[4], const void* row) {
  emulation::warp_load_matrices(registers, row, false);
}

inline void load_matrices_transposed(std::uint32_t (&registers)[4], const void* row) {
  emulation::warp_load_matrices(registers, row, true);
}

template <int kBytes>
void copy_async(void* shared, const void* global, bool valid) {
  emulation::AsyncCopies::of_thread().begin(shared, global, kBytes, valid);
}

inline void commit_copies() { emulation::AsyncCopies::of_thread().commit(); }

template <int kPending>
void wait_for_copies() {
  emulation::AsyncCopies::of_thread().wait(kPending);
}

inline float exp2_fast(float x) { return std::exp2(x); }

}  // namespace l2l::device::cuda
