// embedding and add_positions: rows of a table by token, or of x, plus rows of a table of positions.
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

// Inputs tokens and table, or x (kTokens = false), positions, and places where rows have positions of their own. x and
// y may be the same memory.
template <typename T, bool kTokens>
class PositionSum final : public Kernel {
 public:
  PositionSum(const OpView& op)
      : rows_(op.output(0).shape[0]),
        hidden_(op.output(0).shape[1]),
        vocabulary_(op.input(kPositions - 1).shape[0]),
        sequence_(op.attributes.sequence),
        positions_(op.input(kPositions).shape[0]),
        first_row_(op.attributes.shard.index * rows_),
        places_(op.inputs.size() > kPositions + 1) {
    if (kTokens) op.require_dtype(DType::i32, {0});
    op.require_dtype(op.output(0).dtype, {kPositions - 1, kPositions});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int32_t* tokens = as<std::int32_t>(operands[0]);
    const std::int32_t* places = places_ ? as<std::int32_t>(operands[kPositions + 1]) : nullptr;
    for_rows(rows_, hidden_, workers, [&](std::int64_t row) {
      const std::int64_t from = kTokens ? checked_token(kName, tokens[row], row, vocabulary_) : row;
      const T* x = as<T>(operands[kPositions - 1]) + from * hidden_;
      const T* position =
          as<T>(operands[kPositions]) + place_of(kName, places, first_row_ + row, sequence_, positions_) * hidden_;
      T* y = as<T>(operands.back()) + row * hidden_;
#pragma omp simd
      for (std::int64_t i = 0; i < hidden_; ++i) y[i] = narrow<T>(widen(x[i]) + widen(position[i]));
    });
  }

 private:
  static constexpr std::size_t kPositions = kTokens ? 2 : 1;
  static constexpr const char* kName = kTokens ? "embedding" : "add_positions";

  std::int64_t rows_, hidden_, vocabulary_, sequence_, positions_, first_row_;
  bool places_;
};

template <typename T>
using Embedding = PositionSum<T, true>;
template <typename T>
using AddPositions = PositionSum<T, false>;

}  // namespace

const Factory make_embedding = make_for_output<Embedding>;
const Factory make_add_positions = make_for_output<AddPositions>;

}  // namespace l2l::device::kernels
