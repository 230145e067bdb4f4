// The few instructions that CUDA C++ has no functions for: tensor-core products, loads of their fragments from shared
// memory, and asynchronous copies into it. The only file with inline PTX; sm_80 upward. Source: PTX ISA, "Matrix
// fragments for mma.m16n8k16", "... for mma.m16n8k8", and "ldmatrix".
//
// Of a warp, lane l has g = l / 4 and t = l % 4. A register holds two 16-bit elements, the first in its low half:
//   A [16][16]: a[0] (g, 2t), (g, 2t+1)       a[1] (g+8, 2t), ...     a[2] (g, 2t+8), ...     a[3] (g+8, 2t+8), ...
//   B [16][8]:  b[0] (2t, g), (2t+1, g)       b[1] (2t+8, g), (2t+9, g)
// or one element of TF32:
//   A [16][8]:  a[0] (g, t)    a[1] (g+8, t)    a[2] (g, t+4)   a[3] (g+8, t+4)
//   B [8][8]:   b[0] (t, g)    b[1] (t+4, g)
// Either way:
//   C [16][8]:  c[0] (g, 2t)   c[1] (g, 2t+1)   c[2] (g+8, 2t)   c[3] (g+8, 2t+1)
// All lanes of a warp call the functions of matrices together.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace l2l::device::cuda {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// `value` in TF32, which has the exponents of fp32 and ten bits of mantissa: the nearest, of two the one further from
// zero; the other 13 bits become 0. What is no number stays none.
__device__ inline float to_tf32(float value) {
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
}

// c += a b, in fp32, for elements of type T; those of float must be TF32.
template <typename T>
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);

template <>
__device__ inline void multiply_add<__nv_bfloat16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                   std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ inline void multiply_add<__half>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                            std::uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ inline void multiply_add<float>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                           std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8x8 matrices of 16-bit elements in shared memory. Lane l passes the address (16-byte aligned) of row l % 8 of
// matrix l / 8; register q of a lane then holds (g, 2t), (g, 2t+1) of matrix q. Or matrices [8][4] of 32-bit elements:
// then it holds (g, t).
__device__ inline void load_matrices(std::uint32_t (&registers)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared_address(row))
               : "memory");
}

// The same, each matrix transposed: register q holds (2t, g), (2t+1, g) of matrix q.
__device__ inline void load_matrices_transposed(std::uint32_t (&registers)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared_address(row))
               : "memory");
}

// Begins to copy kBytes (8 or 16, both ends aligned to that) from device memory to shared memory; zeros when not
// `valid`, and nothing is read then. Done for this thread after wait_for_copies(), for its block after a barrier.
template <int kBytes>
__device__ inline void copy_async(void* shared, const void* global, bool valid) {
  static_assert(kBytes == 8 || kBytes == 16);
  const int bytes = valid ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(bytes)
                 : "memory");
  }
}

// Closes a group of the copies that this thread began since the last one.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the kPending latest groups of this thread are under way.
template <int kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// 2^x, to 2 units in the last place of x near 0 and relative 2^-22; 0 for -infinity, results below 2^-126 are 0.
__device__ inline float exp2_fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace l2l::device::cuda
