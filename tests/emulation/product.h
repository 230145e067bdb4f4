// A matrix product as cuBLASLt describes it: D = epilogue(alpha op(A) op(B) + beta C), summed in fp32.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace l2l::emulation {

struct Layout {
  cudaDataType type;
  std::int32_t order;
  std::uint64_t rows, columns;
  std::int64_t leading;
};

struct Description {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType scale = CUDA_R_32F;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int32_t bias_type = -1, aux_type = -1;  // -1: D's
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_leading = 0;
};
// The library's structure holds 32 words; ours must fit.
static_assert(sizeof(Description) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));

struct Product {
  Description description;
  Layout a, b, c, d;

  std::uint64_t depth() const { return description.transpose_a == CUBLAS_OP_N ? a.columns : a.rows; }
};

struct Operands {
  const void* a;
  const void* b;
  const void* c;
  void* d;
  float alpha, beta;
};

// CUBLAS_STATUS_INVALID_VALUE where sizes do not fit each other, CUBLAS_STATUS_NOT_SUPPORTED for types and epilogues
// that the stand-in (or the library) does not have.
cublasStatus_t check(const Product& product);
// Whether the epilogue has the vector and matrix it reads or writes, aligned to 16 bytes.
bool has_pointers(const Description& description);

// In which order k is summed: results differ in their last bits.
struct Summation {
  int parts = 0;  // above 0: in that many parts through the workspace, [parts, columns, rows]
  bool descending = false;
};
void multiply(const Product& product, const Operands& operands, float* workspace, const Summation& summation);

}  // namespace l2l::emulation
