#include <algorithm>

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class EmbeddingRows final : public Kernel {
 public:
  EmbeddingRows(const compiler::Graph& graph, const compiler::Op& op)
      : rows_(output(graph, op, 0).shape[0]),
        hidden_(output(graph, op, 0).shape[1]),
        chunk_(input(graph, op, 1).shape[0]),
        vocabulary_(op.attributes.vocabulary),
        factor_(rounded_to(output(graph, op, 0).dtype, op.attributes.factor)) {
    require_dtype(graph, op, DType::i32, {0});
    require_dtype(graph, op, output(graph, op, 0).dtype, {1});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters& parameters,
           Workers& workers) const override {
    const std::int32_t* tokens = as<std::int32_t>(operands[0]);
    for_rows(rows_, hidden_, workers, [&](std::int64_t row) {
      const std::int64_t token =
          checked_token("embedding_rows", tokens[row], row, vocabulary_) - parameters.first_token;
      if (token < 0 || token >= chunk_) return;
      const T* from = as<T>(operands[1]) + token * hidden_;
      T* to = as<T>(operands[2]) + row * hidden_;
      if (factor_ == 1) {
        std::copy(from, from + hidden_, to);
        return;
      }
#pragma omp simd
      for (std::int64_t i = 0; i < hidden_; ++i) to[i] = narrow<T>(widen(from[i]) * factor_);
    });
  }

 private:
  std::int64_t rows_, hidden_, chunk_, vocabulary_;
  float factor_;  // rounded to T, as one that multiplies an embedding in T is
};

}  // namespace

std::unique_ptr<Kernel> make_embedding_rows(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<EmbeddingRows>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
