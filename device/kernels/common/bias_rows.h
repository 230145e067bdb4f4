// y [rows, columns] = bias [columns] in every row. A product is added to it where the library adds no bias itself.
#pragma once

#include "compiler/ir/graph.h"
#include "device/kernels/common/cuda_kernel.h"

namespace l2l::device::cuda {

// Immutable. Moves y once, and the bias from caches; twice with `accumulate` (y += bias; y f32).
class BiasRows {
 public:
  // y is of the bias's dtype or f32. Throws BadInput for others.
  BiasRows(const compiler::Value& y, DType bias, bool accumulate);
  // Addresses are 16-byte aligned.
  void enqueue(const std::byte* bias, std::byte* y, cudaStream_t stream) const;

 private:
  std::int64_t elements_, columns_;
  DType y_, bias_;
  bool accumulate_;
};

}  // namespace l2l::device::cuda
