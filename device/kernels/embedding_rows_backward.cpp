#include "device/kernels/factories.h"
#include "device/kernels/row_sums.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class EmbeddingRowsBackward final : public Kernel {
 public:
  EmbeddingRowsBackward(const OpView& op)
      : rows_(op.input(1).shape[0]),
        hidden_(op.input(1).shape[1]),
        chunk_(op.output(0).shape[0]),
        first_(op.attributes.first),
        factor_(rounded_to(op.input(1).dtype, op.attributes.factor)) {
    op.require_dtype(DType::i32, {0});
    op.require_dtype(DType::f32, {2});
  }

  void run(Operands operands, std::byte*, const LaunchParameters& parameters, Workers& workers) const override {
    const std::int32_t* tokens = as<std::int32_t>(operands[0]);
    const auto token_of = [&](std::int64_t row) {
      const std::int64_t token = tokens[row] - parameters.first_token - first_;
      return token < chunk_ ? token : -1;
    };
    add_rows(as<T>(operands[1]), rows_, hidden_, factor_, workers, RowSums{as<float>(operands[2]), token_of});
  }

 private:
  std::int64_t rows_, hidden_, chunk_, first_;
  float factor_;
};

}  // namespace

const Factory make_embedding_rows_backward = make_for_input<EmbeddingRowsBackward, 1>;

}  // namespace l2l::device::kernels
