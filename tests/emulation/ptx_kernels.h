// Launches of the kernels in ptx_kernels.cu, on the default stream; pointers are of device memory.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>

namespace l2l::test {

enum class Mistake { none, swapped_fragment, not_rounded, no_wait, unaligned };

// c [16][16] = a b^T, or a b, of [16][16] matrices; swapped_fragment: two registers of a in the wrong order.
void launch_product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, bool transposed, Mistake mistake);
// c [16][16] = a b^T of [16][16] matrices, rounded to TF32; not_rounded: as they are.
void launch_tf32_product(const float* a, const float* b, float* c, Mistake mistake);
// `blocks` blocks each copy their 32 x 16 bytes of `from` to `to` through shared memory, the last 16 bytes as zeros.
// no_wait: without waiting for the copies; unaligned: from an address that is not a multiple of 16.
void launch_copy(const std::byte* from, std::byte* to, unsigned int blocks, Mistake mistake);

}  // namespace l2l::test
