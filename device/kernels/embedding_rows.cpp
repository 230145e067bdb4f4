#include <cstring>

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

class EmbeddingRows final : public Kernel {
 public:
  EmbeddingRows(const compiler::Graph& graph, const compiler::Op& op)
      : rows_(output(graph, op, 0).shape[0]),
        hidden_(output(graph, op, 0).shape[1]),
        chunk_(input(graph, op, 1).shape[0]),
        vocabulary_(op.attributes.vocabulary),
        row_bytes_(static_cast<Bytes>(hidden_) * size_of(output(graph, op, 0).dtype)) {
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
      std::memcpy(operands[2] + static_cast<Bytes>(row) * row_bytes_,
                  operands[1] + static_cast<Bytes>(token) * row_bytes_, row_bytes_);
    });
  }

 private:
  std::int64_t rows_, hidden_, chunk_, vocabulary_;
  Bytes row_bytes_;
};

}  // namespace

std::unique_ptr<Kernel> make_embedding_rows(const compiler::Graph& graph, const compiler::Op& op) {
  require_compute_type(op, output(graph, op, 0).dtype);
  return std::make_unique<EmbeddingRows>(graph, op);
}

}  // namespace l2l::device::kernels
