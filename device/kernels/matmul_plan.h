// Matrix products by cuBLASLt.
//
// Products of bf16 and f16 are summed in fp32; those of fp32 are in fp32 throughout, unless Context::tf32 asks for
// TF32. The algorithm is chosen once for each problem: shape, types, row strides, alignments (declared, never read from
// pointers), bias. Of eight that the library proposes it is the fastest (Context::products). Split-K is allowed only
// through fp32 parts in the workspace that a second step adds in order, not through atomics or sums in place: results
// depend on problem, algorithm, GPU and library alone, to the bit. Where the library has no algorithm, the product is
// our own kernel's (plain_product.h).
//
// Moves at least a, b and y once: (m k + k n) size of the input + m n size of the output, y twice where it is added to.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "device/kernels/common/cuda_kernel.h"
#include "device/kernels/common/product_choices.h"
#include "device/kernels/plain_product.h"

namespace l2l::device::cuda {

class TimingMemory;

// The product of a matmul: inputs a and b, output y.
MatmulShape matmul_shape(const OpView& op);

// A product prepared for one shape. Thread-safe.
class MatmulPlan {
 public:
  // Where algorithms are timed, waits for the device, some of whose memory is taken meanwhile: do not construct it
  // while a stream is captured.
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

  struct Candidate {
    ProductAlgorithm algorithm;
    Bytes workspace;
  };

  MatmulPlan(const Context& context, const MatmulShape& shape, bool bias);
  static Layout make_layout(const ColumnMajor& matrix, DType dtype);
  static Preference make_preference(const MatmulShape& shape);
  void set(cublasLtMatmulDescAttributes_t attribute, const auto& value) const;
  // False: the library has none.
  bool choose_algorithm(const Context& context);
  void use(const Candidate& candidate);
  // Uses a kept algorithm; false: the library cannot, or its results would not be the same each time.
  bool use_kept(const ProductAlgorithm& algorithm);
  std::vector<Candidate> candidates() const;
  // Milliseconds; nothing: the library refuses it. `memory`: a, b, y, the bias and the workspace.
  std::optional<float> time(const Candidate& candidate, const TimingMemory& memory, cudaStream_t stream);
  // Uses the one that takes the least time; of none that works, nothing.
  std::optional<ProductAlgorithm> use_fastest(const std::vector<Candidate>& candidates);

  cublasLtHandle_t library_;
  MatmulShape shape_;
  bool bias_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // of the bias's address in description_
  Description description_;
  Layout first_, second_, d_;
  std::optional<cublasLtMatmulAlgo_t> algorithm_;  // nothing: our own kernel
  Bytes workspace_ = 0;
};

}  // namespace l2l::device::cuda
