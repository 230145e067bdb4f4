#include <algorithm>

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class EmbeddingRows final : public Kernel {
 public:
  EmbeddingRows(const OpView& op)
      : rows_(op.output(0).shape[0]),
        hidden_(op.output(0).shape[1]),
        chunk_(op.input(1).shape[0]),
        vocabulary_(op.attributes.vocabulary),
        factor_(rounded_to(op.output(0).dtype, op.attributes.factor)) {
    op.require_dtype(DType::i32, {0});
    op.require_dtype(op.output(0).dtype, {1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters& parameters, Workers& workers) const override {
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

const Factory make_embedding_rows = make_for_output<EmbeddingRows>;

}  // namespace l2l::device::kernels
