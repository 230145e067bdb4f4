// One op of a graph on the host, ready to run. Each op's host kernel is device/kernels/NAME.cpp; its counterpart for
// CUDA is NAME.cu (device/kernels/common/cuda_kernel.h).
#pragma once

#include <memory>

#include "core/workers.h"
#include "device/device.h"
#include "device/kernels/common/operands.h"
#include "device/tensor_group.h"

namespace l2l::device::kernels {

// Immutable once prepared. One thread at a time calls run(), which then never allocates. Work is cut into blocks by
// shape alone, so results do not depend on the number of workers, to the bit.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Bytes of workspace that run() needs with `threads` workers.
  virtual Bytes workspace(int threads) const {
    (void)threads;
    return 0;
  }
  // Makes what run() needs beside the workspace with `threads` workers, which its first call makes otherwise.
  virtual void prepare(int threads) { (void)threads; }
  // `operands` are at least 16-byte aligned. `workspace`: 64-byte aligned. Throws BadInput for bad
  // contents (a token outside the vocabulary).
  virtual void run(Operands operands, std::byte* workspace, const LaunchParameters& parameters,
                   Workers& workers) const = 0;
};

// The kernel for op `index` of `graph`, on a device that is `tensor` of its group. Throws BadInput that names the op
// when none takes its dtypes, shapes or share.
std::unique_ptr<Kernel> make_kernel(const compiler::Graph& graph, std::size_t index, const TensorMember& tensor = {});

}  // namespace l2l::device::kernels
