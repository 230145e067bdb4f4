// One op of a graph on the host, ready to run. The host twin of each op is kernels/NAME.cpp; a CUDA twin has the same
// name with .cu.
#pragma once

#include <memory>
#include <span>

#include "core/workers.h"
#include "device/device.h"

namespace l2l::device::kernels {

// Immutable after construction; run() is called by one thread at a time and never allocates. Work is cut into blocks
// by shape alone, so bits do not depend on the number of workers.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Bytes of workspace for a pool of `threads` (64-byte aligned when handed to run).
  virtual Bytes workspace(int threads) const {
    (void)threads;
    return 0;
  }
  // `operands`: inputs, then outputs, 16-byte aligned at least.
  virtual void run(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters& parameters,
                   Workers& workers) const = 0;
};

// Kernel for op `index` of `graph`. Throws BadInput naming the op when there is none for its dtypes.
std::unique_ptr<Kernel> make_kernel(const compiler::Graph& graph, std::size_t index);

}  // namespace l2l::device::kernels
