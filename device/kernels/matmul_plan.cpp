#include "device/kernels/matmul_plan.h"

#include <array>
#include <string>

#include "device/kernels/common/check.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

cudaDataType_t library_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw BadInput("no CUDA matmul of " + std::string(name_of(dtype)));
  }
}

std::string describe(const MatmulShape& shape) {
  return "[" + std::to_string(shape.m) + ", " + std::to_string(shape.k) + "] x [" + std::to_string(shape.k) + ", " +
         std::to_string(shape.n) + "] of " + std::string(name_of(shape.input)) + " into " +
         std::string(name_of(shape.output));
}

// An address that stands for its alignment: the heuristic reads alignments from these pointers, nothing else.
void* address_aligned_to(std::uint32_t bytes) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(bytes)); }

void set_preference(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                    const auto& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

}  // namespace

MatmulPlan::Layout MatmulPlan::make_layout(const ColumnMajor& matrix, DType dtype) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, library_type(dtype), static_cast<std::uint64_t>(matrix.rows),
                                   static_cast<std::uint64_t>(matrix.columns), matrix.leading),
        "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

MatmulPlan::Preference MatmulPlan::make_preference(const MatmulShape& shape) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  Preference preference(made);
  set_preference(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_limit(shape));
  // Not in place (order by counters), and not through parts in the output's type, which may have fewer bits.
  set_preference(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set_preference(made, attribute, shape.alignment);
  }
  return preference;
}

void MatmulPlan::set(cublasLtMatmulDescAttributes_t attribute, const auto& value) const {
  check(cublasLtMatmulDescSetAttribute(description_.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

MatmulPlan::MatmulPlan(const Context& context, const MatmulShape& shape, bool bias)
    : library_(context.cublas_lt), bias_(bias) {
  const LibraryProduct product = library_product(shape);
  cublasLtMatmulDesc_t description = nullptr;
  const bool tf32 = context.tf32 && shape.input == DType::f32;
  check(cublasLtMatmulDescCreate(&description, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  description_.reset(description);
  set(CUBLASLT_MATMUL_DESC_TRANSA, product.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, product.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  first_ = make_layout(product.first, shape.input);
  second_ = make_layout(product.second, shape.input);
  d_ = make_layout(product.d, shape.output);
  if (!bias_) return;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, address_aligned_to(shape.alignment));
}

bool MatmulPlan::choose_algorithm(const MatmulShape& shape) {
  const Preference preference = make_preference(shape);
  std::array<cublasLtMatmulHeuristicResult_t, 8> results{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library_, description_.get(), first_.get(), second_.get(), d_.get(), d_.get(),
                                     preference.get(), static_cast<int>(results.size()), results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > workspace_limit(shape)) continue;
    algorithm_ = result.algo;
    workspace_ = result.workspaceSize;
    return true;
  }
  return false;
}

MatmulPlan::MatmulPlan(const Context& context, const MatmulShape& shape) : MatmulPlan(context, shape, /*bias=*/false) {
  if (choose_algorithm(shape)) return;
  throw BadInput("cuBLASLt has no algorithm for " + describe(shape) + " on a GPU of compute capability " +
                 std::to_string(context.compute_capability));
}

std::optional<MatmulPlan> MatmulPlan::with_bias(const Context& context, const MatmulShape& shape) {
  MatmulPlan plan(context, shape, /*bias=*/true);
  if (!plan.choose_algorithm(shape)) return std::nullopt;
  return plan;
}

void MatmulPlan::enqueue(const MatmulOperands& operands, bool accumulate, std::byte* workspace,
                         cudaStream_t stream) const {
  const float one = 1, beta = accumulate ? 1 : 0;
  // The library reads the address while it enqueues, not later.
  std::unique_lock lock(*mutex_, std::defer_lock);
  if (bias_) {
    lock.lock();
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  }
  check(cublasLtMatmul(library_, description_.get(), &one, operands.b, first_.get(), operands.a, second_.get(), &beta,
                       operands.y, d_.get(), operands.y, d_.get(), &algorithm_, workspace_ > 0 ? workspace : nullptr,
                       workspace_, stream),
        "cublasLtMatmul");
}

}  // namespace l2l::device::cuda
