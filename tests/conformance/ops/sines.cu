// An op of a program's own on a GPU, as its author would write it: y [columns + 1] = sin(x_j) p_j, and the sum of x.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <string>

#include "l2l/custom_op.h"
#include "l2l/errors.h"

namespace l2l::test {
namespace {

// A thread for each row.
template <typename T>
__global__ void sines_forward(CustomForwardOnGpu call) {
  const long long row = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (row >= call.rows) return;
  const T* const x = static_cast<const T*>(call.x) + row * call.columns;
  const T* const p = static_cast<const T*>(call.parameters);
  T* const y = static_cast<T*>(call.y) + row * call.result_columns;
  float sum = 0;
  for (long long j = 0; j < call.columns; ++j) {
    y[j] = static_cast<T>(sinf(static_cast<float>(x[j])) * static_cast<float>(p[j]));
    sum += static_cast<float>(x[j]);
  }
  y[call.columns] = static_cast<T>(sum);
}

// A thread for each column, which goes through the rows: the order of its sum is always the same.
template <typename T>
__global__ void sines_backward(CustomBackwardOnGpu call) {
  const long long j = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (j >= call.columns) return;
  const float p = static_cast<float>(static_cast<const T*>(call.parameters)[j]);
  float dp = 0;
  for (long long row = 0; row < call.rows; ++row) {
    const T* const dy = static_cast<const T*>(call.dy) + row * call.result_columns;
    const float x = static_cast<float>(static_cast<const T*>(call.x)[row * call.columns + j]);
    const float own = static_cast<float>(dy[j]), of_sum = static_cast<float>(dy[call.columns]);
    static_cast<T*>(call.dx)[row * call.columns + j] = static_cast<T>(own * cosf(x) * p + of_sum);
    dp += own * sinf(x);
  }
  if (call.dparameters != nullptr) call.dparameters[j] += dp;
}

constexpr unsigned int kThreadsOfSines = 128;

unsigned int blocks_for(std::int64_t count) {
  return static_cast<unsigned int>((count + kThreadsOfSines - 1) / kThreadsOfSines);
}

// The kernel of the call's precision, with `count` threads.
template <typename Call>
void enqueue_sines(void (*fp32)(Call), void (*bf16)(Call), void (*fp16)(Call), std::int64_t count, const Call& call) {
  using Element = CustomOnGpu::Element;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks_for(count));
  config.blockDim = dim3(kThreadsOfSines);
  config.stream = static_cast<cudaStream_t>(call.stream);
  const auto kernel = call.element == Element::fp32 ? fp32 : call.element == Element::bf16 ? bf16 : fp16;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, call);
  if (status != cudaSuccess) throw Error(std::string("sines: ") + cudaGetErrorString(status));
}

}  // namespace

// sines.h
void sines_forward_on_gpu(const CustomForwardOnGpu& call);
void sines_backward_on_gpu(const CustomBackwardOnGpu& call);

void sines_forward_on_gpu(const CustomForwardOnGpu& call) {
  enqueue_sines(sines_forward<float>, sines_forward<__nv_bfloat16>, sines_forward<__half>, call.rows, call);
}

void sines_backward_on_gpu(const CustomBackwardOnGpu& call) {
  enqueue_sines(sines_backward<float>, sines_backward<__nv_bfloat16>, sines_backward<__half>, call.columns, call);
}

}  // namespace l2l::test
