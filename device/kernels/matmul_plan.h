// Matrix products by cuBLASLt.
//
// Products of bf16 and f16 are summed in fp32; those of fp32 are in fp32 throughout, unless Context::tf32 asks for
// TF32. The algorithm is chosen once, from the shape alone: alignments (of addresses, and the row strides) are
// declared, never read from pointers. Split-K is allowed only through fp32 parts in the workspace that a second step
// adds in order, not through atomics or sums in place: results depend on shape, GPU and library alone, to the bit.
//
// Moves at least a, b and y once: (m k + k n) size of the input + m n size of the output, y twice where it is added to.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <mutex>
#include <optional>

#include "core/bytes.h"
#include "device/kernels/common/cuda_kernel.h"
#include "device/kernels/matmul_layout.h"

namespace l2l::device::cuda {

struct MatmulOperands {
  const std::byte* a;
  const std::byte* b;
  std::byte* y;
  const std::byte* bias = nullptr;  // [n], y's dtype
};

// The product of a matmul: inputs a and b, output y.
MatmulShape matmul_shape(const OpView& op);

// A product prepared for one shape. Thread-safe.
class MatmulPlan {
 public:
  // Throws BadInput when the library has no algorithm.
  MatmulPlan(const Context& context, const MatmulShape& shape);
  // Adds a bias before it rounds; empty when the library does not offer that for this shape.
  static std::optional<MatmulPlan> with_bias(const Context& context, const MatmulShape& shape);

  // Bytes, at a 256-byte aligned address.
  Bytes workspace() const { return workspace_; }
  // Enqueues y = product, or y += product. All addresses are aligned as the shape says.
  void enqueue(const MatmulOperands& operands, bool accumulate, std::byte* workspace, cudaStream_t stream) const;

 private:
  struct Destroy {
    void operator()(cublasLtMatmulDescOpaque_t* handle) const { cublasLtMatmulDescDestroy(handle); }
    void operator()(cublasLtMatrixLayoutOpaque_t* handle) const { cublasLtMatrixLayoutDestroy(handle); }
    void operator()(cublasLtMatmulPreferenceOpaque_t* handle) const { cublasLtMatmulPreferenceDestroy(handle); }
  };
  using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy>;
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy>;
  using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy>;

  MatmulPlan(const Context& context, const MatmulShape& shape, bool bias);
  static Layout make_layout(const ColumnMajor& matrix, DType dtype);
  static Preference make_preference(const MatmulShape& shape);
  // False: the library has none.
  bool choose_algorithm(const MatmulShape& shape);
  void set(cublasLtMatmulDescAttributes_t attribute, const auto& value) const;

  cublasLtHandle_t library_;
  bool bias_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // of the bias's address in description_
  Description description_;
  Layout first_, second_, d_;
  cublasLtMatmulAlgo_t algorithm_{};
  Bytes workspace_ = 0;
};

}  // namespace l2l::device::cuda
