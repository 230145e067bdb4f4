// embedding and add_positions: counterpart of embedding.cpp.
#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// A token or place outside its table is no address: its row becomes NaN, which the loss shows. Moves 2 elements of T
// per element; the positions stay in the L2 cache.
template <typename T, bool kTokens>
struct PositionSumBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  static constexpr std::size_t kPositions = kTokens ? 2 : 1;
  const std::int32_t *tokens = nullptr, *places = nullptr;
  const T *x = nullptr, *positions = nullptr;  // x: the table of tokens, or rows of the output's; may then be y
  T* y = nullptr;
  std::int64_t rows_of_x, sequence, rows_of_positions;
  std::int64_t first_row;  // of those of all devices

  PositionSumBody(const OpView& op)
      : ElementwiseBody(op),
        rows_of_x(op.input(kPositions - 1).shape[0]),
        sequence(op.attributes.sequence),
        rows_of_positions(op.input(kPositions).shape[0]),
        first_row(op.attributes.shard.index * op.output(0).shape[0]) {
    columns = op.output(0).shape[1];
  }
  void bind(Operands operands, const LaunchParameters*) {
    if (kTokens) tokens = as<std::int32_t>(operands[0]);
    x = as<T>(operands[kPositions - 1]);
    positions = as<T>(operands[kPositions]);
    places = operands.size() > kPositions + 2 ? as<std::int32_t>(operands[kPositions + 1]) : nullptr;
    y = as<T>(operands.back());
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const std::int64_t from = kTokens ? static_cast<std::int64_t>(tokens[place.row]) : place.row;
    Floats<Count> sum;
    const std::int64_t row = first_row + place.row;
    const std::int64_t position = places != nullptr
                                      ? static_cast<std::int64_t>(places[row])
                                      : static_cast<std::uint32_t>(row) % static_cast<std::uint32_t>(sequence);
    const bool inside = from >= 0 && from < rows_of_x && position >= 0 && position < rows_of_positions;
    if (inside) {
      sum = load_floats<Count>(x + from * columns + place.column);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] = __int_as_float(0x7FC00000);
    }
    const Floats<Count> other = load_floats<Count>(positions + (inside ? position : 0) * columns + place.column);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] += other[i];
    store_floats(y + first, sum);
  }
};

template <typename T>
using Embedding = ElementwiseKernel<PositionSumBody<T, true>>;
template <typename T>
using AddPositions = ElementwiseKernel<PositionSumBody<T, false>>;

}  // namespace

const Factory make_embedding = make_for_output<Embedding>;
const Factory make_add_positions = make_for_output<AddPositions>;

}  // namespace l2l::device::cuda
