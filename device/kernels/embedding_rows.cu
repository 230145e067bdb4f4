#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Rows whose token the chunk does not have stay as they are; a token outside the whole vocabulary makes its row NaN.
// Moves at most 2 elements of T per element.
template <typename T>
struct EmbeddingRowsBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const std::int32_t* tokens = nullptr;
  const T* table = nullptr;
  T* y = nullptr;
  std::int64_t chunk, vocabulary;
  const LaunchParameters* parameters = nullptr;
  std::int64_t first_token = 0;
  float factor;  // rounded to T, as one that multiplies an embedding in T is

  EmbeddingRowsBody(const OpView& op)
      : ElementwiseBody(op),
        chunk(op.input(1).shape[0]),
        vocabulary(op.attributes.vocabulary),
        factor(rounded_to(op.output(0).dtype, op.attributes.factor)) {
    columns = op.output(0).shape[1];
  }
  void bind(Operands operands, const LaunchParameters* launch) {
    point_to(operands, tokens, table, y);
    parameters = launch;
  }

  __device__ void prepare() { first_token = parameters->first_token; }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const std::int64_t token = tokens[place.row], row = token - first_token;
    if (token < 0 || token >= vocabulary) {
      Floats<Count> nan;
#pragma unroll
      for (int i = 0; i < Count; ++i) nan[i] = __int_as_float(0x7FC00000);
      store_floats(y + first, nan);
    } else if (row >= 0 && row < chunk) {
      Floats<Count> values = load_floats<Count>(table + row * columns + place.column);
#pragma unroll
      for (int i = 0; i < Count; ++i) values[i] *= factor;
      store_floats(y + first, values);
    }
  }
};

template <typename T>
using EmbeddingRows = ElementwiseKernel<EmbeddingRowsBody<T>>;

}  // namespace

const Factory make_embedding_rows = make_for_output<EmbeddingRows>;

}  // namespace l2l::device::cuda
