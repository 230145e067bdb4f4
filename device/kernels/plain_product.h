// Matrix products by a kernel of our own, for shapes that cuBLASLt has no algorithm for. Every element is one thread's
// sum in fp32, in ascending order of k: slow, and the same bits at any size of the others.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "device/kernels/matmul_layout.h"

namespace l2l::device::cuda {

struct MatmulOperands {
  const std::byte* a;
  const std::byte* b;
  std::byte* y;
  const std::byte* bias = nullptr;  // [n], y's dtype
};

// Enqueues y = product, or y += product. Moves each operand about once for every 16 rows or columns of the other. The
// operands' bias is not read. Throws BadInput for types that are none of MatmulShape.
void enqueue_plain_product(const MatmulShape& shape, const MatmulOperands& operands, bool accumulate,
                           cudaStream_t stream);

}  // namespace l2l::device::cuda
