#include "device/kernels/plain_product.h"

#include <string>

#include "device/kernels/common/convert.cuh"
#include "device/kernels/common/launch.cuh"

namespace l2l::device::cuda {
namespace {

constexpr int kTile = 16;

// Element (row, column) at row * down + column * right.
struct Steps {
  std::int64_t down, right;
};

Steps steps_of(std::int64_t width, std::int64_t stride, bool transposed) {
  const std::int64_t row = stride != 0 ? stride : width;
  return transposed ? Steps{1, row} : Steps{row, 1};
}

// op(a) [m, k], op(b) [k, n], y [m, n].
struct PlainProduct {
  std::int64_t m, n, k;
  Steps a, b;
  std::int64_t y_row;
  bool accumulate;
};

// A block makes a tile of y; blocks follow in the order of y's rows of tiles.
template <typename T, typename Y>
__global__ void __launch_bounds__(kTile* kTile) plain_product(const T* a, const T* b, Y* y, PlainProduct product) {
  __shared__ float a_tile[kTile][kTile + 1], b_tile[kTile][kTile + 1];
  const std::int64_t wide = (product.n + kTile - 1) / kTile;
  const int down = static_cast<int>(threadIdx.x) / kTile, right = static_cast<int>(threadIdx.x) % kTile;
  const std::int64_t row = blockIdx.x / wide * kTile + down, column = blockIdx.x % wide * kTile + right;
  float sum = 0;
  for (std::int64_t first = 0; first < product.k; first += kTile) {
    const std::int64_t a_k = first + right, b_k = first + down;
    a_tile[down][right] =
        row < product.m && a_k < product.k ? widen(a[row * product.a.down + a_k * product.a.right]) : 0;
    b_tile[down][right] =
        b_k < product.k && column < product.n ? widen(b[b_k * product.b.down + column * product.b.right]) : 0;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum = fmaf(a_tile[down][i], b_tile[i][right], sum);
    __syncthreads();
  }
  if (row >= product.m || column >= product.n) return;
  Y& element = y[row * product.y_row + column];
  element = narrow<Y>(product.accumulate ? widen(element) + sum : sum);
}

template <typename T, typename Y>
void enqueue(const PlainProduct& product, const MatmulOperands& operands, cudaStream_t stream) {
  const std::int64_t tiles = (product.m + kTile - 1) / kTile * ((product.n + kTile - 1) / kTile);
  launch("plain_product", plain_product<T, Y>, {static_cast<unsigned int>(tiles), kTile * kTile}, stream,
         reinterpret_cast<const T*>(operands.a), reinterpret_cast<const T*>(operands.b),
         reinterpret_cast<Y*>(operands.y), product);
}

}  // namespace

void enqueue_plain_product(const MatmulShape& shape, const MatmulOperands& operands, bool accumulate,
                           cudaStream_t stream) {
  const PlainProduct product{shape.m,
                             shape.n,
                             shape.k,
                             steps_of(shape.transpose_a ? shape.m : shape.k, shape.stride_a, shape.transpose_a),
                             steps_of(shape.transpose_b ? shape.k : shape.n, shape.stride_b, shape.transpose_b),
                             shape.stride_y != 0 ? shape.stride_y : shape.n,
                             accumulate};
  const bool widens = shape.output == DType::f32;
  switch (shape.input) {
    case DType::f32:
      return enqueue<float, float>(product, operands, stream);
    case DType::bf16:
      return widens ? enqueue<__nv_bfloat16, float>(product, operands, stream)
                    : enqueue<__nv_bfloat16, __nv_bfloat16>(product, operands, stream);
    case DType::f16:
      return widens ? enqueue<__half, float>(product, operands, stream)
                    : enqueue<__half, __half>(product, operands, stream);
    default:
      throw BadInput("no CUDA matmul of " + std::string(name_of(shape.input)));
  }
}

}  // namespace l2l::device::cuda
