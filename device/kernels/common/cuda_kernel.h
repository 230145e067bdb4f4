// One op of a graph on a CUDA device, ready to enqueue: device/kernels/NAME.cu. Its counterpart on the host is NAME.cpp
// (device/kernels/kernel.h).
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>

#include "device/device.h"
#include "device/kernels/common/operands.h"
#include "device/tensor_group.h"

namespace l2l::device::cuda {

using kernels::as;
using kernels::Operands;
using kernels::OpView;
using kernels::point_to;

class ProductChoices;

// What kernels may know of their device. Immutable.
struct Context {
  int device = 0;              // the runtime API's ordinal
  int compute_capability = 0;  // 90: sm_90
  int multiprocessors = 0;
  std::size_t shared_memory_per_block = 0;  // bytes, after opting in
  cublasLtHandle_t cublas_lt = nullptr;     // nullptr: matrix products are our own kernel's
  ProductChoices* products = nullptr;       // algorithms of that library; nullptr: the first that it proposes
  bool tf32 = false;                // products of fp32, attention's too, by TF32: ten bits of each factor's mantissa
  Bytes logits = Bytes{256} << 20;  // the most that a loss keeps at once (device/kernels/logit_panels.h)
  bool cudnn = true;                // attention may be cuDNN's; false: always our own kernels
  // The most that the backward pass of cuDNN's attention may take beside its operands: its deterministic algorithm
  // keeps the gradients of all scores, [sequences, heads, sequence, sequence] of 16 bits.
  Bytes attention_workspace = Bytes{2} << 30;
};

// Immutable; enqueue() may be repeated and, where capturable(), captured into a CUDA graph. It neither allocates nor
// waits, unless for other devices with which it exchanges, and touches only operands, workspace and parameters. Results
// depend on shapes, GPU and build alone, to the bit: no floating-point atomics, and algorithms are chosen at
// construction.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Bytes of device memory, 256-byte aligned when handed to enqueue().
  virtual Bytes workspace() const { return 0; }
  // Whether enqueue() may be captured into a CUDA graph: not where it exchanges with other devices.
  virtual bool capturable() const { return true; }
  // `operands` are in device memory, at least 16-byte aligned. `parameters` is in device memory,
  // too: kernels read it when they run, so that a captured graph can be replayed with other values. Throws DeviceError
  // when the runtime refuses a launch.
  virtual void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
                       cudaStream_t stream) const = 0;
};

// The kernel for op `index` of `graph`, on a device that is `tensor` of its group. Throws BadInput that names the op
// when none takes its dtypes, shapes or share.
std::unique_ptr<Kernel> make_kernel(const Context& context, const compiler::Graph& graph, std::size_t index,
                                    const TensorMember& tensor = {});

}  // namespace l2l::device::cuda
