#include "core/word_elements.h"
#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Reads the words once and writes an element of T per element of y.
template <typename T>
struct UnpackBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const std::int32_t* words = nullptr;
  T* y = nullptr;
  std::int64_t words_of_row;
  WordElement type;

  UnpackBody(const OpView& op)
      : ElementwiseBody(op), words_of_row(op.input(0).shape[1]), type(op.attributes.word_element) {
    columns = elements / op.input(0).shape[0];
  }
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, words, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const std::int32_t* const row = words + place.row * words_of_row;
    Floats<Count> values;
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = number(row, place.column + i);
    store_floats(y + first, values);
  }

 private:
  __device__ float number(const std::int32_t* row, std::int64_t column) const {
    if (type == WordElement::u8) return reinterpret_cast<const std::uint8_t*>(row)[column];
    if (type == WordElement::f16) return widen(reinterpret_cast<const __half*>(row)[column]);
    return widen(reinterpret_cast<const __nv_bfloat16*>(row)[column]);
  }
};

template <typename T>
using Unpack = ElementwiseKernel<UnpackBody<T>>;

}  // namespace

const Factory make_unpack = make_for_output<Unpack>;

}  // namespace l2l::device::cuda
