// Kernels that keep the rules, and kernels that break one.
#include "tests/emulation/test_kernels.h"

#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/shared.cuh"

namespace l2l::test {
namespace {

using device::cuda::dynamic_shared;
using device::cuda::launch;

__device__ float sum_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffff, value, distance);
  return value;
}

template <bool kWait>
__global__ void __launch_bounds__(256) sum_rows(const float* __restrict__ x, float* sums, int columns) {
  __shared__ float parts[8];
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += x[static_cast<std::int64_t>(blockIdx.x) * columns + i];
  sum = sum_of_warp(sum);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  if (kWait) __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0;
    for (unsigned int warp = 0; warp < blockDim.x / 32; ++warp) sum += parts[warp];
    sums[blockIdx.x] = sum;
  }
}

__global__ void reverse(const int* from, int* to) {
  int* const row = dynamic_shared<int>();
  row[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}

__global__ void lanes(unsigned int* out) {
  const unsigned int lane = threadIdx.x % 32;
  out[threadIdx.x] = __shfl_down_sync(0xffffffff, lane, 1) + 100 * __shfl_up_sync(0xffffffff, lane, 1) +
                     10000 * __shfl_sync(0xffffffff, lane, 5, 8);
  if (__ballot_sync(0xffffffff, lane % 2) != 0xaaaaaaaau) __trap();
  if (__any_sync(0xffffffff, lane > 31) || !__all_sync(0xffffffff, lane < 32)) __trap();
}

__global__ void divergent_barrier() {
  if (threadIdx.x < 32) return;
  __syncthreads();
}

__global__ void divergent_warp() {
  if (threadIdx.x % 32 < 7) {
    __syncwarp();
  } else {
    __shfl_sync(0xffffffff, 1, 0);
  }
}

__global__ void half_a_warp_shuffles() {
  if (threadIdx.x % 32 < 16) __shfl_xor_sync(0xffffffff, 1, 1);
}

__global__ void write_behind_shared_memory() { dynamic_shared<int>()[blockDim.x + threadIdx.x] = 1; }

__global__ void read_unwritten(float* out) {
  __shared__ float unwritten[4];
  if (threadIdx.x == 0) out[blockIdx.x] = unwritten[blockIdx.x % 4] + dynamic_shared<float>()[0];
  if (threadIdx.x == 0) unwritten[(blockIdx.x + 1) % 4] = dynamic_shared<float>()[0] = 1;
}

__global__ void misaligned(const float* x, float* y) {
  reinterpret_cast<float4*>(y)[threadIdx.x] = *reinterpret_cast<const float4*>(x + threadIdx.x);
}

__global__ void index_behind_array(int* out, int index) {
  __shared__ int values[32];
  values[threadIdx.x] = 1;
  __syncwarp();
  if (threadIdx.x == 0) *out = values[index];
}

__global__ void index_of_block(int* last) { *last = static_cast<int>(blockIdx.x); }

}  // namespace

void launch_sum_rows(const float* x, float* sums, int rows, int columns, bool with_barrier) {
  launch("sum_rows", with_barrier ? sum_rows<true> : sum_rows<false>,
         {dim3(static_cast<unsigned int>(rows)), dim3(256)}, nullptr, x, sums, columns);
}
void launch_reverse(const int* from, int* to, unsigned int count, std::size_t shared_bytes) {
  launch("reverse", reverse, {dim3(1), dim3(count), shared_bytes}, nullptr, from, to);
}
void allow_reverse(std::size_t bytes) { device::cuda::allow_shared_memory(reverse, bytes); }
void launch_lanes(unsigned int* out) { launch("lanes", lanes, {dim3(1), dim3(64)}, nullptr, out); }
void launch_divergent_barrier() { launch("divergent_barrier", divergent_barrier, {dim3(1), dim3(64)}, nullptr); }
void launch_divergent_warp() { launch("divergent_warp", divergent_warp, {dim3(1), dim3(64)}, nullptr); }
void launch_half_a_warp() { launch("half_a_warp", half_a_warp_shuffles, {dim3(1), dim3(32)}, nullptr); }
void launch_write_behind() { launch("write_behind", write_behind_shared_memory, {dim3(1), dim3(32), 128}, nullptr); }
void launch_read_unwritten(float* out, unsigned int blocks) {
  launch("read_unwritten", read_unwritten, {dim3(blocks), dim3(32), 16}, nullptr, out);
}
void launch_misaligned(const float* x, float* y) {
  launch("misaligned", misaligned, {dim3(1), dim3(32)}, nullptr, x, y);
}
void launch_index_behind_array(int* out, int index) {
  launch("index_behind_array", index_behind_array, {dim3(1), dim3(32)}, nullptr, out, index);
}
void launch_index_of_block(int* last, unsigned int blocks) {
  launch("index_of_block", index_of_block, {dim3(blocks), dim3(32)}, nullptr, last);
}

}  // namespace l2l::test
