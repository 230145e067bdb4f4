#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Embedding final : public Kernel {
 public:
  Embedding(const compiler::Graph& graph, const compiler::Op& op)
      : rows_(output(graph, op, 0).shape[0]),
        hidden_(output(graph, op, 0).shape[1]),
        vocabulary_(input(graph, op, 1).shape[0]),
        sequence_(op.attributes.sequence),
        positions_(input(graph, op, 2).shape[0]),
        places_(op.inputs.size() > 3) {
    require_dtype(graph, op, DType::i32, {0});
    require_dtype(graph, op, output(graph, op, 0).dtype, {1, 2});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
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

std::unique_ptr<Kernel> make_embedding(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<Embedding>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
