#include "device/kernels/matmul_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string>

#include "core/checked.h"
#include "core/log.h"
#include "device/kernels/common/check.h"
#include "device/kernels/common/handle.h"
#include "device/kernels/product_timing.h"
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

// As far as the library's answer depends on it.
std::string problem_of(const MatmulShape& shape, bool bias, bool tf32) {
  const auto matrix = [](std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t stride) {
    return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]" + (transposed ? "^T" : "") +
           (stride != 0 ? " stride " + std::to_string(stride) : "");
  };
  return std::string(name_of(shape.input)) + (tf32 ? " by TF32 " : " ") +
         matrix(shape.m, shape.k, shape.transpose_a, shape.stride_a) + " x " +
         matrix(shape.k, shape.n, shape.transpose_b, shape.stride_b) + (bias ? " + bias" : "") + " into " +
         std::string(name_of(shape.output)) + (shape.stride_y != 0 ? " stride " + std::to_string(shape.stride_y) : "") +
         ", aligned to " + std::to_string(shape.alignment);
}

// Said once, as there may be many such products.
void tell_untimed(const OutOfMemory& error) {
  static std::once_flag told;
  std::call_once(told, [&] {
    log(LogLevel::warning, std::string(error.what()) +
                               "; products that find no memory for that use what cuBLASLt proposes first, which may be "
                               "slower");
  });
}

StreamHandle make_stream() {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return StreamHandle(made);
}

// What make_preference() asks of those that the library proposes.
bool sums_in_order(const cublasLtMatmulAlgo_t& algorithm) {
  std::uint32_t scheme = 0;
  std::size_t written = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                                     &scheme, sizeof scheme, &written);
  return status == CUBLAS_STATUS_SUCCESS &&
         (scheme == CUBLASLT_REDUCTION_SCHEME_NONE || scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
}

Bytes bytes_of(const ColumnMajor& matrix, DType dtype) {
  const auto columns = static_cast<Bytes>(matrix.columns), leading = static_cast<Bytes>(matrix.leading);
  return checked_multiply(checked_multiply(columns, leading, "a matrix"), size_of(dtype), "a matrix");
}

// Of a, b, y, the bias and the workspace.
std::vector<Bytes> timing_pieces(const MatmulShape& shape, Bytes workspace) {
  const LibraryProduct product = library_product(shape);
  return {bytes_of(product.second, shape.input), bytes_of(product.first, shape.input),
          bytes_of(product.d, shape.output), static_cast<Bytes>(shape.n) * size_of(shape.output), workspace};
}

// An address that stands for its alignment: the heuristic reads alignments from these pointers, nothing else.
void* address_aligned_to(std::uint32_t bytes) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(bytes)); }

bool uses_tf32(const Context& context, const MatmulShape& shape) { return context.tf32 && shape.input == DType::f32; }

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
    : library_(context.cublas_lt), shape_(shape), bias_(bias) {
  const LibraryProduct product = library_product(shape);
  cublasLtMatmulDesc_t description = nullptr;
  const bool tf32 = uses_tf32(context, shape);
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

std::vector<MatmulPlan::Candidate> MatmulPlan::candidates() const {
  const Preference preference = make_preference(shape_);
  std::array<cublasLtMatmulHeuristicResult_t, 8> results{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library_, description_.get(), first_.get(), second_.get(), d_.get(), d_.get(),
                                     preference.get(), static_cast<int>(results.size()), results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<Candidate> candidates;
  for (const cublasLtMatmulHeuristicResult_t& result : std::span(results).first(static_cast<std::size_t>(found))) {
    if (result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > workspace_limit(shape_)) continue;
    candidates.push_back({std::bit_cast<ProductAlgorithm>(result.algo), result.workspaceSize});
  }
  return candidates;
}

void MatmulPlan::use(const Candidate& candidate) {
  algorithm_ = std::bit_cast<cublasLtMatmulAlgo_t>(candidate.algorithm);
  workspace_ = candidate.workspace;
}

bool MatmulPlan::use_kept(const ProductAlgorithm& algorithm) {
  const auto kept = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(library_, description_.get(), first_.get(), second_.get(),
                                                        d_.get(), d_.get(), &kept, &result);
  if (status != CUBLAS_STATUS_SUCCESS || !sums_in_order(kept)) return false;
  if (result.workspaceSize > workspace_limit(shape_)) return false;
  use({algorithm, result.workspaceSize});
  return true;
}

std::optional<float> MatmulPlan::time(const Candidate& candidate, const TimingMemory& memory, cudaStream_t stream) {
  const MatmulOperands operands{memory.piece(0), memory.piece(1), memory.piece(2), memory.piece(3)};
  use(candidate);
  try {
    return least_milliseconds([&] { enqueue(operands, shape_.accumulate, memory.piece(4), stream); }, stream);
  } catch (const DeviceError&) {  // the library may refuse what it has proposed
    static_cast<void>(cudaGetLastError());
    return std::nullopt;
  }
}

std::optional<ProductAlgorithm> MatmulPlan::use_fastest(const std::vector<Candidate>& candidates) {
  if (candidates.empty()) return std::nullopt;
  const Candidate* best = &candidates.front();
  if (candidates.size() > 1) {
    const StreamHandle stream = make_stream();
    Bytes workspace = 0;
    for (const Candidate& candidate : candidates) workspace = std::max(workspace, candidate.workspace);
    try {
      const TimingMemory memory(timing_pieces(shape_, workspace), stream.get());
      best = nullptr;
      float least = 0;
      for (const Candidate& candidate : candidates) {
        const std::optional<float> taken = time(candidate, memory, stream.get());
        if (!taken || (best != nullptr && *taken >= least)) continue;
        best = &candidate;
        least = *taken;
      }
    } catch (const OutOfMemory& error) {
      tell_untimed(error);
    }
  }
  if (best == nullptr) {
    algorithm_.reset();
    workspace_ = 0;
    return std::nullopt;
  }
  use(*best);
  return best->algorithm;
}

bool MatmulPlan::choose_algorithm(const Context& context) {
  if (library_ == nullptr) return false;
  if (context.products != nullptr) {
    context.products->get(
        problem_of(shape_, bias_, uses_tf32(context, shape_)),
        [&](const ProductAlgorithm& kept) { return use_kept(kept); }, [&] { return use_fastest(candidates()); });
  } else if (const std::vector<Candidate> all = candidates(); !all.empty()) {
    use(all.front());
  }
  return algorithm_.has_value();
}

MatmulPlan::MatmulPlan(const Context& context, const MatmulShape& shape) : MatmulPlan(context, shape, /*bias=*/false) {
  choose_algorithm(context);
}

std::optional<MatmulPlan> MatmulPlan::with_bias(const Context& context, const MatmulShape& shape) {
  MatmulPlan plan(context, shape, /*bias=*/true);
  if (!plan.choose_algorithm(context)) return std::nullopt;
  return plan;
}

void MatmulPlan::enqueue(const MatmulOperands& operands, bool accumulate, std::byte* workspace,
                         cudaStream_t stream) const {
  if (!algorithm_) return enqueue_plain_product(shape_, operands, accumulate, stream);
  const float one = 1, beta = accumulate ? 1 : 0;
  // The library reads the address while it enqueues, not later.
  std::unique_lock lock(*mutex_, std::defer_lock);
  if (bias_) {
    lock.lock();
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  }
  check(cublasLtMatmul(library_, description_.get(), &one, operands.b, first_.get(), operands.a, second_.get(), &beta,
                       operands.y, d_.get(), operands.y, d_.get(), &*algorithm_, workspace_ > 0 ? workspace : nullptr,
                       workspace_, stream),
        "cublasLtMatmul");
}

}  // namespace l2l::device::cuda
