// What losses and programs ask of MatmulPlan beyond the table's products.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/dtype.h"
#include "device/kernels/matmul_plan.h"
#include "tests/conformance/ops/cuda_support.h"

namespace l2l::test {
namespace {

namespace cuda = device::cuda;
using cuda::MatmulShape;

std::int64_t stride_of(std::int64_t stride, std::int64_t width) { return stride != 0 ? stride : width; }

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// Operands in bf16 with their rows apart as the shape says; NaN between them.
struct Problem {
  MatmulShape shape;
  std::vector<bf16> a, b;
  std::int64_t a_height, a_width, a_stride, b_height, b_width, b_stride, y_stride;

  explicit Problem(const MatmulShape& of) : shape(of) {
    a_height = shape.transpose_a ? shape.k : shape.m, a_width = shape.transpose_a ? shape.m : shape.k;
    b_height = shape.transpose_b ? shape.n : shape.k, b_width = shape.transpose_b ? shape.k : shape.n;
    a_stride = stride_of(shape.stride_a, a_width), b_stride = stride_of(shape.stride_b, b_width);
    y_stride = stride_of(shape.stride_y, shape.n);
    std::mt19937_64 random(7);
    a = fill(a_height, a_width, a_stride, random);
    b = fill(b_height, b_width, b_stride, random);
  }

  static std::vector<bf16> fill(std::int64_t height, std::int64_t width, std::int64_t stride, std::mt19937_64& random) {
    std::vector<bf16> values(static_cast<std::size_t>(height * stride), to_bf16(NAN));
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < height; ++i) {
      for (std::int64_t j = 0; j < width; ++j)
        values[static_cast<std::size_t>(i * stride + j)] = to_bf16(normal(random));
    }
    return values;
  }

  double at(std::int64_t row, std::int64_t column) const {
    double sum = 0;
    for (std::int64_t l = 0; l < shape.k; ++l) {
      const std::int64_t i = shape.transpose_a ? l * a_stride + row : row * a_stride + l;
      const std::int64_t j = shape.transpose_b ? column * b_stride + l : l * b_stride + column;
      sum += static_cast<double>(to_float(a[static_cast<std::size_t>(i)])) *
             static_cast<double>(to_float(b[static_cast<std::size_t>(j)]));
    }
    return sum;
  }

  // y in f32, `times` times the product added to 1; all operands `remainder` bytes behind a multiple of 256.
  std::vector<float> run(Bytes remainder, int times) const {
    const cuda::MatmulPlan plan(cuda_context(), shape);
    std::vector<float> y(static_cast<std::size_t>(shape.m * y_stride), 1.0f);
    DeviceMemory a_memory(bytes_of(a).size(), remainder), b_memory(bytes_of(b).size(), remainder),
        y_memory(bytes_of(y).size(), remainder), workspace(plan.workspace() + 1, 0);
    a_memory.write(0, bytes_of(a));
    b_memory.write(0, bytes_of(b));
    y_memory.write(0, bytes_of(y));
    CudaStream stream;
    for (int i = 0; i < times; ++i) {
      plan.enqueue({a_memory.data(), b_memory.data(), y_memory.data()}, true, workspace.data(), stream.get());
    }
    cuda::check(cudaStreamSynchronize(stream.get()), "products");
    y_memory.read(0, std::as_writable_bytes(std::span(y)));
    return y;
  }
};

std::vector<Problem> problems() {
  std::vector<Problem> problems;
  for (int bits = 0; bits < 8; ++bits) {
    MatmulShape shape;
    shape.m = 40, shape.n = 72, shape.k = 136;
    shape.input = DType::bf16;
    shape.transpose_a = bits & 1;
    shape.transpose_b = bits & 2;
    if (bits & 4) shape.stride_a = 160, shape.stride_b = 144, shape.stride_y = 80;
    problems.emplace_back(shape);
  }
  return problems;
}

// Twice the product, added to 1; nothing between rows.
void expect_product(const Problem& problem) {
  const std::vector<float> y = problem.run(0, 2);
  for (std::int64_t i = 0; i < problem.shape.m; ++i) {
    for (std::int64_t j = 0; j < problem.y_stride; ++j) {
      const double expected = j < problem.shape.n ? 1 + 2 * problem.at(i, j) : 1;
      const float actual = y[static_cast<std::size_t>(i * problem.y_stride + j)];
      ASSERT_NEAR(actual, expected, 1e-4 * (1 + std::abs(expected))) << i << ", " << j;
    }
  }
}

TEST(CudaMatmul, ReadsAndWritesRowsThatLieApart) {
  for (const Problem& problem : problems()) expect_product(problem);
}

TEST(CudaMatmul, BitsDoNotDependOnAddresses) {
  for (const Problem& problem : problems()) {
    const std::vector<float> aligned = problem.run(0, 1);
    for (const Bytes remainder : {16, 32, 80, 128}) EXPECT_EQ(aligned, problem.run(remainder, 1)) << remainder;
  }
}

// The same where the library has none.
TEST(CudaMatmul, OurOwnKernelReadsAndWritesRowsThatLieApart) {
  const device::cuda::Context before = cuda_context();
  cuda_context().cublas_lt = nullptr;
  for (const Problem& problem : problems()) expect_product(problem);
  cuda_context() = before;
}

}  // namespace
}  // namespace l2l::test
