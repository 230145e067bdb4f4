// Kernels on the functions of device/kernels/common/ptx.cuh.
#include "tests/emulation/ptx_kernels.h"

#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/ptx.cuh"
#include "device/kernels/common/shared.cuh"

namespace l2l::test {
namespace {

using namespace device::cuda;

constexpr int kStride = 24;  // rows of 16 elements, in different banks

__global__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, bool transposed, bool swapped) {
  __nv_bfloat16* const left = dynamic_shared<__nv_bfloat16>();
  __nv_bfloat16* const right = left + 16 * kStride;
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) {
    left[i / 16 * kStride + i % 16] = a[i];
    right[i / 16 * kStride + i % 16] = b[i];
  }
  __syncthreads();
  std::uint32_t x[4], y[4];
  load_matrices(x, left + lane % 16 * kStride + lane / 16 * 8);
  if (swapped) {
    const std::uint32_t kept = x[1];
    x[1] = x[2];
    x[2] = kept;
  }
  // Columns 0-7 of the result take y[0] and y[1], columns 8-15 y[2] and y[3].
  if (transposed) {
    load_matrices(y, right + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8);
  } else {
    load_matrices_transposed(y, right + (lane / 8 % 2 * 8 + lane % 8) * kStride + lane / 16 * 8);
  }
  for (int n = 0; n < 2; ++n) {
    float sums[4] = {};
    multiply_add<__nv_bfloat16>(sums, x, y[2 * n], y[2 * n + 1]);
    for (int e = 0; e < 4; ++e) c[(lane / 4 + e / 2 * 8) * 16 + 8 * n + lane % 4 * 2 + e % 2] = sums[e];
  }
}

__global__ void tf32_product(const float* a, const float* b, float* c, bool swapped, bool rounded) {
  constexpr int kTf32Stride = 20;
  float* const left = dynamic_shared<float>();
  float* const right = left + 16 * kTf32Stride;
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) {
    left[i / 16 * kTf32Stride + i % 16] = rounded ? to_tf32(a[i]) : a[i];
    right[i / 16 * kTf32Stride + i % 16] = rounded ? to_tf32(b[i]) : b[i];
  }
  __syncthreads();
  float sums[2][4] = {};
  for (int k = 0; k < 16; k += 8) {
    std::uint32_t x[4], y[4];
    load_matrices(x, left + lane % 16 * kTf32Stride + k + lane / 16 * 4);
    if (swapped) {
      const std::uint32_t kept = x[1];
      x[1] = x[2];
      x[2] = kept;
    }
    load_matrices(y, right + (lane / 16 * 8 + lane % 8) * kTf32Stride + k + lane / 8 % 2 * 4);
    for (int n = 0; n < 2; ++n) multiply_add<float>(sums[n], x, y[2 * n], y[2 * n + 1]);
  }
  for (int n = 0; n < 2; ++n) {
    for (int e = 0; e < 4; ++e) c[(lane / 4 + e / 2 * 8) * 16 + 8 * n + lane % 4 * 2 + e % 2] = sums[n][e];
  }
}

__global__ void copy(const std::byte* from, std::byte* to, bool wait, int offset) {
  std::byte* const shared = dynamic_shared<std::byte>();
  const std::byte* const source = from + blockIdx.x * 512;
  copy_async<16>(shared + threadIdx.x * 16, source + threadIdx.x * 16 + offset, threadIdx.x < 31);
  commit_copies();
  if (wait) wait_for_copies<0>();
  __syncthreads();
  const unsigned int other = 31 - threadIdx.x;
  for (unsigned int i = 0; i < 16; ++i) to[blockIdx.x * 512 + other * 16 + i] = shared[other * 16 + i];
}

}  // namespace

void launch_product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, bool transposed, Mistake mistake) {
  launch("product", product, {1, 32, 2 * 16 * kStride * sizeof(__nv_bfloat16)}, nullptr, a, b, c, transposed,
         mistake == Mistake::swapped_fragment);
}

void launch_tf32_product(const float* a, const float* b, float* c, Mistake mistake) {
  launch("tf32_product", tf32_product, {1, 32, 2 * 16 * 20 * sizeof(float)}, nullptr, a, b, c,
         mistake == Mistake::swapped_fragment, mistake != Mistake::not_rounded);
}

void launch_copy(const std::byte* from, std::byte* to, unsigned int blocks, Mistake mistake) {
  launch("copy", copy, {blocks, 32, 512}, nullptr, from, to, mistake != Mistake::no_wait,
         mistake == Mistake::unaligned ? 8 : 0);
}

}  // namespace l2l::test
