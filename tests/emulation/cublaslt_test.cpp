// The stand-in for cuBLASLt against sums in float64, in all transposes, orders and epilogues that it has.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace l2l::test {
namespace {

struct Case {
  bool transpose_a, transpose_b;
  cublasLtOrder_t order;
  float beta;
  std::uint64_t depth;  // 64 and more are summed in parts
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
};

constexpr std::uint64_t kRows = 16, kColumns = 5;

// fp32 matrices of cuBLASLt's names, and what the library is told of them.
class Product {
 public:
  explicit Product(const Case& chosen) : case_(chosen) {
    cublasLtCreate(&handle_);
    cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(CUBLASLT_MATMUL_DESC_TRANSA, chosen.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, chosen.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, chosen.epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux_);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{kRows});
    a_layout_ = layout(chosen.transpose_a ? chosen.depth : kRows, chosen.transpose_a ? kRows : chosen.depth);
    b_layout_ = layout(chosen.transpose_b ? kColumns : chosen.depth, chosen.transpose_b ? chosen.depth : kColumns);
    d_layout_ = layout(kRows, kColumns);
    fill(a_, 3), fill(b_, 5), fill(d_, 7), fill(bias_, 11), fill(aux_, 13);
    std::copy(std::begin(d_), std::end(d_), c_), std::copy(std::begin(aux_), std::end(aux_), aux_before_);
  }

  ~Product() {
    for (const auto made : {a_layout_, b_layout_, d_layout_}) cublasLtMatrixLayoutDestroy(made);
    cublasLtMatmulDescDestroy(description_);
    cublasLtDestroy(handle_);
  }

  cublasStatus_t run(std::uint64_t workspace) {
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 8);
    const std::uint32_t alignment = 16;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, 4);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, description_, a_layout_, b_layout_, d_layout_,
                                                                 d_layout_, preference, 1, &result, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) return status;
    used_workspace = result.workspaceSize;
    const float alpha = 0.5f;
    const cublasStatus_t launched =
        cublasLtMatmul(handle_, description_, &alpha, a_, a_layout_, b_, b_layout_, &case_.beta, d_, d_layout_, d_,
                       d_layout_, &result.algo, workspace > 0 ? workspace_ : nullptr, result.workspaceSize, nullptr);
    cudaDeviceSynchronize();
    return launched;
  }

  // Before GELU.
  double expected(std::uint64_t row, std::uint64_t column) const {
    double sum = 0;
    for (std::uint64_t k = 0; k < case_.depth; ++k) sum += a(row, k) * b(k, column);
    sum = 0.5 * sum + static_cast<double>(case_.beta) * static_cast<double>(at(c_, kRows, kColumns, row, column));
    return has(4) ? sum + static_cast<double>(bias_[row]) : sum;
  }
  double a(std::uint64_t row, std::uint64_t k) const {
    return factor(a_, case_.transpose_a, kRows, case_.depth, row, k);
  }
  double b(std::uint64_t k, std::uint64_t column) const {
    return factor(b_, case_.transpose_b, case_.depth, kColumns, k, column);
  }
  double d(std::uint64_t row, std::uint64_t column) const {
    return static_cast<double>(at(d_, kRows, kColumns, row, column));
  }
  double aux(std::uint64_t row, std::uint64_t column) const { return static_cast<double>(aux_[column * kRows + row]); }
  double aux_before(std::uint64_t row, std::uint64_t column) const {
    return static_cast<double>(aux_before_[column * kRows + row]);
  }
  double bias(std::uint64_t i) const { return static_cast<double>(bias_[i]); }
  bool has(int flag) const { return (case_.epilogue & flag) != 0; }

  std::uint64_t used_workspace = 0;

 private:
  void set(cublasLtMatmulDescAttributes_t name, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    const T stored = value;
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(description_, name, &stored, sizeof stored), CUBLAS_STATUS_SUCCESS);
  }
  cublasLtMatrixLayout_t layout(std::uint64_t rows, std::uint64_t columns) const {
    cublasLtMatrixLayout_t made = nullptr;
    const bool by_rows = case_.order == CUBLASLT_ORDER_ROW;
    cublasLtMatrixLayoutCreate(&made, CUDA_R_32F, rows, columns, static_cast<std::int64_t>(by_rows ? columns : rows));
    const std::int32_t order = case_.order;
    cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
    return made;
  }
  template <std::size_t N>
  static void fill(float (&values)[N], int seed) {
    for (std::size_t i = 0; i < N; ++i)
      values[i] = static_cast<float>((static_cast<int>(i) * 37 + seed) % 23 - 11) / 16;
  }
  float at(const float* memory, std::uint64_t rows, std::uint64_t columns, std::uint64_t row,
           std::uint64_t column) const {
    return memory[case_.order == CUBLASLT_ORDER_ROW ? row * columns + column : column * rows + row];
  }
  double factor(const float* memory, bool transposed, std::uint64_t rows, std::uint64_t columns, std::uint64_t row,
                std::uint64_t column) const {
    return static_cast<double>(transposed ? at(memory, columns, rows, column, row)
                                          : at(memory, rows, columns, row, column));
  }

  Case case_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr, b_layout_ = nullptr, d_layout_ = nullptr;
  alignas(256) float a_[2048], b_[1024], c_[128], d_[128], bias_[64], aux_[128], aux_before_[128], workspace_[4096];
};

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_derivative(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

constexpr double kTolerance = 2e-5;

TEST(CublasLt, ProductsMatchFloat64) {
  for (int i = 0; i < 32; ++i) {
    const Case chosen{(i & 1) != 0, (i & 2) != 0, (i & 4) != 0 ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL,
                      (i & 8) != 0 ? 1.0f : 0.0f, (i & 16) != 0 ? 7u : 70u};
    Product product(chosen);
    ASSERT_EQ(product.run(sizeof(float) * 4096), CUBLAS_STATUS_SUCCESS) << i;
    EXPECT_EQ(product.used_workspace > 0, chosen.depth >= 64);
    for (std::uint64_t row = 0; row < kRows; ++row) {
      for (std::uint64_t column = 0; column < kColumns; ++column) {
        ASSERT_NEAR(product.d(row, column), product.expected(row, column), kTolerance) << i;
      }
    }
  }
}

TEST(CublasLt, WorkspaceLimitExcludesParts) {
  Product product({false, false, CUBLASLT_ORDER_COL, 0, 70});
  ASSERT_EQ(product.run(0), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product.used_workspace, 0u);
}

TEST(CublasLt, EpiloguesMatchFloat64) {
  for (const auto epilogue :
       {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    const Case chosen{false, true, CUBLASLT_ORDER_COL, 0, 9, epilogue};
    const bool tangent = epilogue == CUBLASLT_EPILOGUE_DGELU || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD;
    Product product(chosen);
    ASSERT_EQ(product.run(0), CUBLAS_STATUS_SUCCESS) << epilogue;
    for (std::uint64_t row = 0; row < kRows; ++row) {
      double sum = 0, a_sum = 0;
      for (std::uint64_t column = 0; column < kColumns; ++column) {
        double y = product.expected(row, column);
        if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
          ASSERT_NEAR(product.aux(row, column), y, kTolerance);
        }
        if (product.has(32)) y = gelu(y);
        if (tangent) y *= gelu_derivative(product.aux_before(row, column));
        ASSERT_NEAR(product.d(row, column), y, kTolerance) << epilogue;
        sum += y;
      }
      for (std::uint64_t k = 0; k < chosen.depth; ++k) a_sum += product.a(row, k);
      if (epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) {
        ASSERT_NEAR(product.bias(row), sum, kTolerance);
      }
      if (epilogue == CUBLASLT_EPILOGUE_BGRADA) {
        ASSERT_NEAR(product.bias(row), a_sum, kTolerance);
      }
    }
    for (std::uint64_t column = 0; epilogue == CUBLASLT_EPILOGUE_BGRADB && column < kColumns; ++column) {
      double sum = 0;
      for (std::uint64_t k = 0; k < chosen.depth; ++k) sum += product.b(k, column);
      ASSERT_NEAR(product.bias(column), sum, kTolerance);
    }
  }
}

TEST(CublasLt, RefusesWhatItDoesNotHave) {
  EXPECT_EQ(Product({false, false, CUBLASLT_ORDER_COL, 0, 7, CUBLASLT_EPILOGUE_RELU}).run(0),
            CUBLAS_STATUS_NOT_SUPPORTED);
}

}  // namespace
}  // namespace l2l::test
