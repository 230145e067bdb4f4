// One op of a graph on a CUDA device, ready to enqueue. Its host twin is device/kernels/kernel.h;
// device/kernels/NAME.cu stands beside NAME.cpp and computes the same op of the same table.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <span>

#include "device/device.h"

namespace l2l::device::cuda {

// What kernels may know of their device. Immutable.
struct Context {
  int device = 0;              // the runtime API's ordinal
  int compute_capability = 0;  // 90: sm_90
  int multiprocessors = 0;
  std::size_t shared_memory_per_block = 0;  // bytes, after opting in
  cublasLtHandle_t cublas_lt = nullptr;
  bool tf32 = false;                // products of fp32 by TF32: ten bits of each factor's mantissa
  bool library_gelu = true;         // false: GELU after a product by our kernel (device/kernels/matmul_gelu.cpp)
  Bytes logits = Bytes{256} << 20;  // the most that a loss keeps at once (device/kernels/logit_panels.h)
  bool cudnn = true;                // attention may be cuDNN's; false: always our own kernels
};

// Immutable after construction, apart from nothing: enqueue() may run again and again, and inside a stream capture. It
// never allocates, never waits, and touches no memory but operands, workspace and parameters. Bits depend on shapes,
// the GPU and this build alone: no atomics on floating-point numbers, algorithms chosen at construction.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Bytes of device memory, 256-byte aligned when handed to enqueue().
  virtual Bytes workspace() const { return 0; }
  // `operands`: inputs, then outputs, in device memory, 16-byte aligned at least. `parameters` lies in device memory,
  // too: kernels read it when they run, so that a captured graph can be replayed with other values. Throws DeviceError
  // when the runtime refuses a launch.
  virtual void enqueue(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters* parameters,
                       cudaStream_t stream) const = 0;
};

// Kernel for op `index` of `graph`. Throws BadInput naming the op when there is none for its dtypes or shapes.
std::unique_ptr<Kernel> make_kernel(const Context& context, const compiler::Graph& graph, std::size_t index);

}  // namespace l2l::device::cuda
