// The functions of cuBLASLt that the project uses: descriptors, a heuristic that offers up to three algorithms, which
// sum in other orders, and products in fp32. Where the real library would refuse or misread a call, this one refuses
// it.
#include <cublasLt.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "tests/emulation/product.h"
#include "tests/emulation/runtime.h"
#include "tests/emulation/stream.h"

namespace l2l::emulation {
namespace {

constexpr std::uint64_t kMagic = 0x4C324C4C54ull;
constexpr int kSplitParts = 2;
constexpr std::uint64_t kSplitLeast = 64;  // the least k that is summed in parts

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment = 256;
};

// What lies in the library's opaque structures.
template <typename Content, typename Opaque>
Content& content(Opaque* opaque) {
  static_assert(sizeof(Content) <= sizeof(Opaque) && std::is_trivially_copyable_v<Content>);
  return *reinterpret_cast<Content*>(opaque);
}
template <typename Content, typename Opaque>
const Content& content(const Opaque* opaque) {
  return content<Content>(const_cast<Opaque*>(opaque));
}

template <typename Content, typename Opaque>
cublasStatus_t create(Opaque** opaque, const Content& initial) {
  *opaque = new Opaque();
  std::memcpy(*opaque, &initial, sizeof initial);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t assign(T& field, const void* from, std::size_t bytes) {
  if (!from || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, from, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

// In which an algorithm sums. The heuristic is never asked for one that sums in place.
enum SumOrder : std::uint32_t { kAscending, kDescending, kInPlace };

// Which algorithm for which product.
struct Algorithm {
  std::uint64_t magic = 0, rows = 0, columns = 0, depth = 0;
  std::uint32_t epilogue = 0, alignment = 0;
  std::uint32_t parts = 0, order = 0;  // Summation
  std::uint64_t place = 0;             // among those that the heuristic offers
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

std::uint64_t workspace_of(const Algorithm& algorithm) {
  return algorithm.parts * algorithm.rows * algorithm.columns * sizeof(float);
}

// On the device's clock.
std::chrono::milliseconds time_beyond_the_fastest(const Algorithm& algorithm) {
  constexpr std::chrono::milliseconds kOfAPlace{10};
  return std::abs(static_cast<int>(algorithm.place) - machine().fastest_product) * kOfAPlace;
}

// Whether the bytes are an algorithm of this library for this product.
bool read_algorithm(const cublasLtMatmulAlgo_t& from, const Product& product, Algorithm& algorithm) {
  std::memcpy(static_cast<void*>(&algorithm), &from, sizeof algorithm);
  return algorithm.magic == kMagic && algorithm.rows == product.d.rows && algorithm.columns == product.d.columns &&
         algorithm.depth == product.depth() && algorithm.epilogue == product.description.epilogue &&
         algorithm.parts <= kSplitParts && algorithm.order <= kInPlace;
}

bool aligned(const void* address, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

}  // namespace
}  // namespace l2l::emulation

using namespace l2l::emulation;

struct cublasLtContext {};

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS (another)";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }
size_t cublasLtGetVersion() { return 130000; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  return create(layout, Layout{type, CUBLASLT_ORDER_COL, rows, columns, leading});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                const void* from, size_t bytes) {
  Layout& fields = content<Layout>(layout);
  switch (name) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return assign(fields.type, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return assign(fields.order, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return assign(fields.rows, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return assign(fields.columns, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return assign(fields.leading, from, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  Description initial;
  initial.compute = compute;
  initial.scale = scale;
  return create(description, initial);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) { return destroy(description); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t name,
                                              const void* from, size_t bytes) {
  Description& fields = content<Description>(description);
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(fields.transpose_a, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(fields.transpose_b, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(fields.epilogue, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(fields.bias, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return assign(fields.bias_type, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return assign(fields.aux, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return assign(fields.aux_leading, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return assign(fields.aux_type, from, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { return destroy(preference); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* from,
                                                    size_t bytes) {
  Preference& fields = content<Preference>(preference);
  std::uint32_t alignment = 0;
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(fields.workspace, from, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return assign(fields.reduction_schemes, from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      if (const cublasStatus_t status = assign(alignment, from, bytes)) return status;
      fields.alignment = std::min(fields.alignment, alignment);
      return CUBLAS_STATUS_SUCCESS;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (!handle || !description || !a || !b || !c || !d || !preference || asked < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{content<Description>(description), content<Layout>(a), content<Layout>(b), content<Layout>(c),
                        content<Layout>(d)};
  if (const cublasStatus_t status = check(product)) return status;
  const Preference& limits = content<Preference>(preference);
  if (!machine().products) return CUBLAS_STATUS_SUCCESS;
  Algorithm plain{kMagic,          product.d.rows, product.d.columns, product.depth(), product.description.epilogue,
                  limits.alignment};
  Algorithm split = plain, descending = plain;
  split.parts = kSplitParts;
  descending.order = kDescending;
  const bool may_split =
      (limits.reduction_schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) && plain.depth >= kSplitLeast;
  for (Algorithm algorithm : {split, plain, descending}) {
    if (*found == asked || workspace_of(algorithm) > limits.workspace || (algorithm.parts > 0 && !may_split)) continue;
    algorithm.place = static_cast<std::uint64_t>(*found);
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = workspace_of(algorithm);
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* chosen,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (!handle || !description || !a || !b || !c || !d || !chosen || !result) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{content<Description>(description), content<Layout>(a), content<Layout>(b), content<Layout>(c),
                        content<Layout>(d)};
  if (const cublasStatus_t status = check(product)) return status;
  Algorithm algorithm;
  if (!read_algorithm(*chosen, product, algorithm)) return CUBLAS_STATUS_INVALID_VALUE;
  *result = {};
  result->workspaceSize = workspace_of(algorithm);
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* from,
                                                    cublasLtMatmulAlgoConfigAttributes_t name, void* to, size_t bytes,
                                                    size_t* written) {
  if (name != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME || !from || !to || bytes != sizeof(std::uint32_t)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Algorithm algorithm;
  std::memcpy(static_cast<void*>(&algorithm), from, sizeof algorithm);
  const std::uint32_t scheme = algorithm.order == kInPlace ? CUBLASLT_REDUCTION_SCHEME_INPLACE
                               : algorithm.parts > 0       ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                           : CUBLASLT_REDUCTION_SCHEME_NONE;
  std::memcpy(to, &scheme, sizeof scheme);
  *written = sizeof scheme;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* chosen, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  if (!handle || !description || !alpha || !beta || !a || !b || !d || !a_layout || !b_layout || !c_layout ||
      !d_layout || !chosen) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Product product{content<Description>(description), content<Layout>(a_layout), content<Layout>(b_layout),
                        content<Layout>(c_layout), content<Layout>(d_layout)};
  if (const cublasStatus_t status = check(product)) return status;
  Algorithm algorithm;
  const bool fits = read_algorithm(*chosen, product, algorithm) && workspace_bytes >= workspace_of(algorithm) &&
                    aligned(workspace, 256) && (workspace || workspace_of(algorithm) == 0);
  const Description& fields = product.description;
  for (const void* const address : {a, b, c, static_cast<const void*>(d), static_cast<const void*>(fields.bias)}) {
    if (!fits || !aligned(address, algorithm.alignment)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!has_pointers(product.description)) return CUBLAS_STATUS_INVALID_VALUE;
  const Operands operands{a, b, c, d, *static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
  if (operands.beta != 0 && !c) return CUBLAS_STATUS_INVALID_VALUE;
  const auto run = [product, operands, workspace, algorithm] {
    const Summation summation{static_cast<int>(algorithm.parts), algorithm.order == kDescending};
    multiply(product, operands, static_cast<float*>(workspace), summation);
    advance_clock(time_beyond_the_fastest(algorithm));
  };
  return enqueue(stream, run) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
