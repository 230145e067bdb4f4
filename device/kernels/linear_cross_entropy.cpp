#include <numeric>

#include "device/kernels/convert.h"
#include "device/kernels/cross_entropy.h"
#include "device/kernels/factories.h"
#include "device/kernels/operands.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class LinearCrossEntropy final : public Kernel {
 public:
  LinearCrossEntropy(const graph::Graph& graph, const graph::Op& op)
      : rows_(input(graph, op, 0).shape[0]),
        hidden_(input(graph, op, 0).shape[1]),
        vocabulary_(input(graph, op, 1).shape[0]),
        chunks_(logit_chunks(rows_, vocabulary_)),
        product_(chunks_, [&](std::int64_t rows) {
          return logits_shape(rows, vocabulary_, hidden_, input(graph, op, 0).dtype);
        }) {
    require_dtype(graph, op, input(graph, op, 0).dtype, {1});
    require_dtype(graph, op, DType::i32, {2});
    require_dtype(graph, op, DType::f64, {3});
  }

  Bytes workspace(int threads) const override { return Workspace(*this, nullptr).used + product_.workspace(threads); }

  void run(std::span<std::byte* const> operands, std::byte* base, const LaunchParameters&,
           Workers& workers) const override {
    const Workspace workspace(*this, base);
    const Bytes row_bytes = static_cast<Bytes>(hidden_) * sizeof(T);
    for (std::int64_t chunk = 0; chunk < chunks_.count(); ++chunk) {
      const std::byte* x = operands[0] + static_cast<Bytes>(chunks_.begin(chunk)) * row_bytes;
      product_.run(chunk, {x, operands[1], nullptr, reinterpret_cast<std::byte*>(workspace.logits)},
                   base + workspace.used, workers);
      losses_of_chunk(chunk, as<std::int32_t>(operands[2]), workspace, workers);
    }
    *as<double>(operands[3]) = std::accumulate(workspace.losses, workspace.losses + rows_, 0.0);
  }

 private:
  struct Workspace {
    float* logits;
    double* losses;
    Bytes used;
    Workspace(const LinearCrossEntropy& kernel, std::byte* base) {
      WorkspaceCutter cutter(base);
      logits = cutter.take<float>(kernel.chunks_.size * kernel.vocabulary_);
      losses = cutter.take<double>(kernel.rows_);
      used = cutter.used();
    }
  };

  void losses_of_chunk(std::int64_t chunk, const std::int32_t* targets, const Workspace& workspace,
                       Workers& workers) const {
    const std::int64_t first = chunks_.begin(chunk);
    const Partition blocks = row_blocks(chunks_.end(chunk) - first, vocabulary_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i) {
        const std::int32_t target = targets[first + i];
        workspace.losses[first + i] = 0;
        if (target < 0) continue;
        checked_token("linear_cross_entropy", target, first + i, vocabulary_);
        workspace.losses[first + i] = row_loss(workspace.logits + i * vocabulary_, vocabulary_, target).loss;
      }
    });
  }

  std::int64_t rows_, hidden_, vocabulary_;
  Partition chunks_;
  ChunkProduct product_;
};

}  // namespace

std::unique_ptr<Kernel> make_linear_cross_entropy(const graph::Graph& graph, const graph::Op& op) {
  return make_for_dtype<LinearCrossEntropy>(graph, op, input(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
