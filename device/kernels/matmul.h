// Matrix products. Two files to link: matmul_onednn.cpp, or matmul_portable.cpp where oneDNN is missing.
#pragma once

#include <memory>
#include <string_view>

#include "core/dtype.h"
#include "core/workers.h"

namespace l2l::device::kernels {

// y [m, n] = op(a) op(b) + bias, all dense and row-major: a is [m, k], or [k, m] if transposed; b is [k, n], or [n, k].
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  DType input = DType::f32;   // of a, b and bias: f32, bf16 or f16
  DType output = DType::f32;  // f32 or `input`
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;        // [n]
  bool accumulate = false;  // y += (y f32)

  std::int64_t products() const { return m * n * k; }  // multiplications and additions
};

struct MatmulOperands {
  const std::byte* a;
  const std::byte* b;
  const std::byte* bias;  // null without
  std::byte* y;
};

// A product prepared for one shape. Immutable but for handles inside: run() is called by one thread at a time. Tiles
// depend on the shape alone, sums of a tile on one thread: the bits do not depend on the number of workers.
class MatmulPlan {
 public:
  explicit MatmulPlan(const MatmulShape& shape);
  ~MatmulPlan();
  MatmulPlan(MatmulPlan&&) noexcept;

  Bytes workspace(int threads) const;
  // As Kernel::prepare().
  void prepare(int threads);
  // `workspace` is 64-byte aligned.
  void run(const MatmulOperands& operands, std::byte* workspace, Workers& workers) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Whether this processor, and the library, multiply such numbers without converting each to fp32 first.
bool has_instructions(DType input);

// "oneDNN" or "portable".
std::string_view matmul_library();

}  // namespace l2l::device::kernels
