// Copies of four dimensions whose elements lie at any strides: permute and broadcast.
#pragma once

#include <array>

#include "device/kernels/common/elementwise.cuh"

namespace l2l::device::cuda {

// Element (i, j, k, l) of x is at i strides[0] + j strides[1] + k strides[2] + l strides[3].
struct Strided {
  std::array<std::int64_t, 4> dims, strides;
};

// The strides of dimensions that are stored without gaps, the last one innermost.
inline std::array<std::int64_t, 4> dense_strides(const std::array<std::int64_t, 4>& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

// y = factor x, y without gaps. Moves at most 2 elements of T per element; where the innermost stride is not 1, loads
// are of single elements.
template <typename T>
struct StridedBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const T* x = nullptr;
  T* y = nullptr;
  std::uint32_t inner_dim, middle_dim;
  std::int64_t outer, middle, inner, step;  // strides
  bool packed;                              // groups of y are groups of x
  float factor;

  StridedBody(const OpView& op, const Strided& from, float scale)
      : ElementwiseBody(op),
        inner_dim(static_cast<std::uint32_t>(from.dims[2])),
        middle_dim(static_cast<std::uint32_t>(from.dims[1])),
        outer(from.strides[0]),
        middle(from.strides[1]),
        inner(from.strides[2]),
        step(from.strides[3]),
        packed(step == 1 && rows_are_packed<T>(outer) && rows_are_packed<T>(middle) && rows_are_packed<T>(inner)),
        factor(scale) {
    columns = from.dims[3];
  }
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const auto row = static_cast<std::uint32_t>(place.row);
    const std::uint32_t above = row / inner_dim, top = above / middle_dim;
    const T* const from =
        x + top * outer + (above - top * middle_dim) * middle + (row - above * inner_dim) * inner + place.column * step;
    Floats<Count> values;
    if (packed) {
      values = load_floats<Count>(from);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) values[i] = widen(from[i * step]);
    }
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] *= factor;
    store_floats(y + first, values);
  }
};

}  // namespace l2l::device::cuda
