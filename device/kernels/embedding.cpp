#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Embedding final : public Kernel {
 public:
  Embedding(const OpView& op)
      : rows_(op.output(0).shape[0]),
        hidden_(op.output(0).shape[1]),
        vocabulary_(op.input(1).shape[0]),
        sequence_(op.attributes.sequence),
        positions_(op.input(2).shape[0]),
        places_(op.inputs.size() > 3) {
    op.require_dtype(DType::i32, {0});
    op.require_dtype(op.output(0).dtype, {1, 2});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int32_t* tokens = as<std::int32_t>(operands[0]);
    const std::int32_t* places = places_ ? as<std::int32_t>(operands[3]) : nullptr;
    for_rows(rows_, hidden_, workers, [&](std::int64_t row) {
      const std::int64_t token = checked_token("embedding", tokens[row], row, vocabulary_);
      const T* table = as<T>(operands[1]) + token * hidden_;
      const T* position = as<T>(operands[2]) + place_of("embedding", places, row, sequence_, positions_) * hidden_;
      T* y = as<T>(operands.back()) + row * hidden_;
#pragma omp simd
      for (std::int64_t i = 0; i < hidden_; ++i) y[i] = narrow<T>(widen(table[i]) + widen(position[i]));
    });
  }

 private:
  std::int64_t rows_, hidden_, vocabulary_, sequence_, positions_;
  bool places_;
};

}  // namespace

const Factory make_embedding = make_for_output<Embedding>;

}  // namespace l2l::device::kernels
