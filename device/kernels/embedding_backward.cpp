#include "device/kernels/factories.h"
#include "device/kernels/row_sums.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class EmbeddingBackward final : public Kernel {
 public:
  EmbeddingBackward(const OpView& op)
      : rows_(op.input(1).shape[0]),
        hidden_(op.input(1).shape[1]),
        vocabulary_(op.output(0).shape[0]),
        sequence_(op.attributes.sequence),
        positions_(op.output(1).shape[0]),
        table_(op.inputs.size()) {
    op.require_dtype(DType::i32, {0});
    op.require_dtype(DType::f32, {table_, table_ + 1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int32_t* tokens = as<std::int32_t>(operands[0]);
    const std::int32_t* places = table_ > 2 ? as<std::int32_t>(operands[2]) : nullptr;
    const auto token = [&](std::int64_t row) {
      return checked_token("embedding_backward", tokens[row], row, vocabulary_);
    };
    const auto place = [&](std::int64_t row) {
      return place_of("embedding_backward", places, row, sequence_, positions_);
    };
    add_rows(as<T>(operands[1]), rows_, hidden_, 1, workers, RowSums{as<float>(operands[table_]), token},
             RowSums{as<float>(operands[table_ + 1]), place});
  }

 private:
  std::int64_t rows_, hidden_, vocabulary_, sequence_, positions_;
  std::size_t table_;  // operand; places may come before it
};

}  // namespace

const Factory make_embedding_backward = make_for_input<EmbeddingBackward, 1>;

}  // namespace l2l::device::kernels
