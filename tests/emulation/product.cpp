#include "tests/emulation/product.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "tests/emulation/tf32.h"

namespace l2l::emulation {
namespace {

float load(const void* memory, int type, std::int64_t index) {
  switch (type) {
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(memory)[index]);
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(memory)[index]);
    default:
      return static_cast<const float*>(memory)[index];
  }
}

void store(void* memory, int type, std::int64_t index, float value) {
  switch (type) {
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(memory)[index] = __float2bfloat16_rn(value);
      return;
    case CUDA_R_16F:
      static_cast<__half*>(memory)[index] = __float2half_rn(value);
      return;
    default:
      static_cast<float*>(memory)[index] = value;
  }
}

std::int64_t offset(const Layout& layout, std::int64_t row, std::int64_t column) {
  return layout.order == CUBLASLT_ORDER_ROW ? row * layout.leading + column : column * layout.leading + row;
}

// op(matrix) in fp32, with its columns (or rows) in order.
std::vector<float> unpack(const void* memory, const Layout& layout, bool transposed, bool by_columns) {
  const auto rows = static_cast<std::int64_t>(transposed ? layout.columns : layout.rows);
  const auto columns = static_cast<std::int64_t>(transposed ? layout.rows : layout.columns);
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t column = 0; column < columns; ++column) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t from = transposed ? offset(layout, column, row) : offset(layout, row, column);
      values[static_cast<std::size_t>(by_columns ? column * rows + row : row * columns + column)] =
          load(memory, layout.type, from);
    }
  }
  return values;
}

// The tanh form, as the library's.
constexpr float kRoot = 0.7978845608028654f, kCube = 0.044715f;  // sqrt(2 / pi)
float gelu(float x) { return 0.5f * x * (1 + std::tanh(kRoot * (x + kCube * x * x * x))); }
float gelu_derivative(float x) {
  const float t = std::tanh(kRoot * (x + kCube * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kRoot * (1 + 3 * kCube * x * x);
}

bool has(const Description& description, int flag) {
  return (description.epilogue & static_cast<std::uint32_t>(flag)) != 0;
}
constexpr int kGelu = 32, kDgelu = 64, kAux = 128, kBias = 4, kBgrad = 16;
constexpr int kBgradA = CUBLASLT_EPILOGUE_BGRADA, kBgradB = CUBLASLT_EPILOGUE_BGRADB;

bool is_number(int type) { return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F; }

bool layout_fits(const Layout& layout) {
  if (layout.rows == 0 || layout.columns == 0) return false;
  const std::uint64_t least = layout.order == CUBLASLT_ORDER_ROW ? layout.columns : layout.rows;
  return layout.leading >= static_cast<std::int64_t>(least);
}

bool is_supported(std::uint32_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      return true;
    default:
      return false;
  }
}

// One product, element by element of D.
class Multiplication {
 public:
  Multiplication(const Product& product, const Operands& operands)
      : product_(product),
        operands_(operands),
        rows_(static_cast<std::int64_t>(product.d.rows)),
        columns_(static_cast<std::int64_t>(product.d.columns)),
        depth_(static_cast<std::int64_t>(product.depth())),
        a_(unpack(operands.a, product.a, product.description.transpose_a != CUBLAS_OP_N, true)),
        b_(unpack(operands.b, product.b, product.description.transpose_b != CUBLAS_OP_N, true)) {
    if (product.description.compute != CUBLAS_COMPUTE_32F_FAST_TF32) return;
    for (std::vector<float>* const factors : {&a_, &b_}) std::ranges::transform(*factors, factors->begin(), to_tf32);
  }

  // sums[column * rows + row] = sum of a b over [begin, end) of k, or from its end down.
  void sum(std::int64_t begin, std::int64_t end, bool descending, float* sums) const {
    std::fill(sums, sums + rows_ * columns_, 0.0f);
    for (std::int64_t column = 0; column < columns_; ++column) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t k = descending ? begin + end - 1 - i : i;
        const float factor = b_[static_cast<std::size_t>(column * depth_ + k)];
        const float* const from = a_.data() + k * rows_;
        float* const to = sums + column * rows_;
        for (std::int64_t row = 0; row < rows_; ++row) to[row] += factor * from[row];
      }
    }
  }

  void finish(const std::vector<float>& sums) const {
    const Description& description = product_.description;
    std::vector<float> gradient(static_cast<std::size_t>(rows_));
    for (std::int64_t column = 0; column < columns_; ++column) {
      for (std::int64_t row = 0; row < rows_; ++row) {
        const float value = element(sums[static_cast<std::size_t>(column * rows_ + row)], row, column);
        gradient[static_cast<std::size_t>(row)] += value;
        store(operands_.d, product_.d.type, offset(product_.d, row, column), value);
      }
    }
    const int type = bias_type();
    if (has(description, kBgrad)) {
      for (std::int64_t row = 0; row < rows_; ++row) {
        store(description.bias, type, row, gradient[static_cast<std::size_t>(row)]);
      }
    }
    if (has(description, kBgradA)) store_sums_over_depth(a_, rows_, 1, rows_, type);
    if (has(description, kBgradB)) store_sums_over_depth(b_, columns_, depth_, 1, type);
  }

 private:
  int bias_type() const {
    return product_.description.bias_type >= 0 ? product_.description.bias_type : product_.d.type;
  }

  float element(float sum, std::int64_t row, std::int64_t column) const {
    const Description& description = product_.description;
    float value = operands_.alpha * sum;
    if (operands_.beta != 0) {
      value += operands_.beta * load(operands_.c, product_.c.type, offset(product_.c, row, column));
    }
    if (has(description, kBias)) value += load(description.bias, bias_type(), row);
    const int aux_type = description.aux_type >= 0 ? description.aux_type : product_.d.type;
    const std::int64_t aux = column * description.aux_leading + row;
    if (has(description, kGelu) && has(description, kAux)) store(description.aux, aux_type, aux, value);
    if (has(description, kGelu)) value = gelu(value);
    if (has(description, kDgelu)) value *= gelu_derivative(load(description.aux, aux_type, aux));
    return value;
  }

  // bias[i] = sum over k of values[i * stride + k * step].
  void store_sums_over_depth(const std::vector<float>& values, std::int64_t count, std::int64_t stride,
                             std::int64_t step, int type) const {
    for (std::int64_t i = 0; i < count; ++i) {
      float sum = 0;
      for (std::int64_t k = 0; k < depth_; ++k) sum += values[static_cast<std::size_t>(i * stride + k * step)];
      store(product_.description.bias, type, i, sum);
    }
  }

  const Product& product_;
  const Operands& operands_;
  std::int64_t rows_, columns_, depth_;
  std::vector<float> a_, b_;  // both by columns
};

}  // namespace

cublasStatus_t check(const Product& product) {
  const auto& [description, a, b, c, d] = product;
  for (const Layout* const layout : {&a, &b, &c, &d}) {
    if (!layout_fits(*layout)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_number(layout->type) || (layout->order != CUBLASLT_ORDER_COL && layout->order != CUBLASLT_ORDER_ROW)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }
  const bool a_plain = description.transpose_a == CUBLAS_OP_N, b_plain = description.transpose_b == CUBLAS_OP_N;
  if ((a_plain ? a.rows : a.columns) != d.rows || (b_plain ? b.columns : b.rows) != d.columns ||
      (b_plain ? b.rows : b.columns) != product.depth() || c.rows != d.rows || c.columns != d.columns) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool tf32 = description.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type == CUDA_R_32F;
  if ((description.compute != CUBLAS_COMPUTE_32F && !tf32) || description.scale != CUDA_R_32F || a.type != b.type ||
      c.type != d.type || (d.type != a.type && d.type != CUDA_R_32F) || !is_supported(description.epilogue)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool aux = has(description, kAux);
  if (aux && (description.aux_leading < static_cast<std::int64_t>(d.rows) || description.aux_leading % 8 != 0)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (aux && d.order != CUBLASLT_ORDER_COL) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

bool has_pointers(const Description& description) {
  const auto good = [](const void* address) { return address && reinterpret_cast<std::uintptr_t>(address) % 16 == 0; };
  const bool bias = has(description, kBias | kBgrad | kBgradA | kBgradB);
  return (!bias || good(description.bias)) && (!has(description, kAux) || good(description.aux));
}

void multiply(const Product& product, const Operands& operands, float* workspace, const Summation& summation) {
  const auto [parts, descending] = summation;
  const Multiplication multiplication(product, operands);
  const std::size_t elements = product.d.rows * product.d.columns;
  const auto depth = static_cast<std::int64_t>(product.depth());
  std::vector<float> sums(elements);
  if (parts == 0) multiplication.sum(0, depth, descending, sums.data());
  for (int part = 0; part < parts; ++part) {
    multiplication.sum(depth * part / parts, depth * (part + 1) / parts, descending,
                       workspace + static_cast<std::size_t>(part) * elements);
  }
  for (int part = 0; part < parts; ++part) {
    for (std::size_t i = 0; i < elements; ++i) sums[i] += workspace[static_cast<std::size_t>(part) * elements + i];
  }
  multiplication.finish(sums);
}

}  // namespace l2l::emulation
