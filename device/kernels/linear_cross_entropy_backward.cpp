#include <numeric>
#include <type_traits>

#include "device/kernels/convert.h"
#include "device/kernels/cross_entropy.h"
#include "device/kernels/factories.h"
#include "device/kernels/operands.h"
#include "device/kernels/tokens.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {
namespace {

// dx [rows, hidden] = dlogits table.
MatmulShape dx_shape(MatmulShape logits) {
  logits.output = logits.input;
  std::swap(logits.n, logits.k);
  logits.transpose_b = false;
  return logits;
}

// dtable f32 [vocabulary, hidden] += dlogits^T x.
MatmulShape dtable_shape(const MatmulShape& logits) {
  MatmulShape shape;
  shape.m = logits.n;
  shape.n = logits.k;
  shape.k = logits.m;
  shape.input = logits.input;
  shape.transpose_a = true;
  shape.accumulate = true;
  return shape;
}

template <typename T>
class LinearCrossEntropyBackward final : public Kernel {
 public:
  LinearCrossEntropyBackward(const graph::Graph& graph, const graph::Op& op)
      : rows_(input(graph, op, 0).shape[0]),
        hidden_(input(graph, op, 0).shape[1]),
        vocabulary_(input(graph, op, 1).shape[0]),
        dtype_(input(graph, op, 0).dtype),
        chunks_(logit_chunks(rows_, vocabulary_)),
        logits_(chunks_, [&](std::int64_t rows) { return logits_of(rows); }),
        dx_(chunks_, [&](std::int64_t rows) { return dx_shape(logits_of(rows)); }),
        dtable_(chunks_, [&](std::int64_t rows) { return dtable_shape(logits_of(rows)); }) {
    require_dtype(graph, op, dtype_, {1, 4});
    require_dtype(graph, op, DType::i32, {2});
    require_dtype(graph, op, DType::f64, {3});
    require_dtype(graph, op, DType::f32, {5});
  }

  Bytes workspace(int threads) const override {
    return Workspace(*this, nullptr).used +
           std::max({logits_.workspace(threads), dx_.workspace(threads), dtable_.workspace(threads)});
  }

  void run(std::span<std::byte* const> operands, std::byte* base, const LaunchParameters& parameters,
           Workers& workers) const override {
    const Workspace workspace(*this, base);
    std::byte* logits = reinterpret_cast<std::byte*>(workspace.logits);
    std::byte* gradients = reinterpret_cast<std::byte*>(workspace.gradients);
    std::byte* products = base + workspace.used;
    for (std::int64_t chunk = 0; chunk < chunks_.count(); ++chunk) {
      const Bytes offset = static_cast<Bytes>(chunks_.begin(chunk) * hidden_) * sizeof(T);
      const std::byte* x = operands[0] + offset;
      logits_.run(chunk, {x, operands[1], nullptr, logits}, products, workers);
      differentiate_chunk(chunk, as<std::int32_t>(operands[2]), parameters.loss_scale, workspace, workers);
      dx_.run(chunk, {gradients, operands[1], nullptr, operands[4] + offset}, products, workers);
      dtable_.run(chunk, {gradients, x, nullptr, operands[5]}, products, workers);
    }
    *as<double>(operands[3]) = std::accumulate(workspace.losses, workspace.losses + rows_, 0.0);
  }

 private:
  // dlogits replace the logits in fp32 and lie beside them in bf16.
  struct Workspace {
    float* logits;
    T* gradients;
    double* losses;
    Bytes used;
    Workspace(const LinearCrossEntropyBackward& kernel, std::byte* base) {
      WorkspaceCutter cutter(base);
      const std::int64_t elements = kernel.chunks_.size * kernel.vocabulary_;
      logits = cutter.take<float>(elements);
      if constexpr (std::is_same_v<T, float>) {
        gradients = logits;
      } else {
        gradients = cutter.take<T>(elements);
      }
      losses = cutter.take<double>(kernel.rows_);
      used = cutter.used();
    }
  };

  MatmulShape logits_of(std::int64_t rows) const { return logits_shape(rows, vocabulary_, hidden_, dtype_); }

  void differentiate_chunk(std::int64_t chunk, const std::int32_t* targets, float loss_scale,
                           const Workspace& workspace, Workers& workers) const {
    const std::int64_t first = chunks_.begin(chunk);
    const Partition blocks = row_blocks(chunks_.end(chunk) - first, vocabulary_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i) {
        workspace.losses[first + i] =
            differentiate_row(targets[first + i], first + i, loss_scale, workspace.logits + i * vocabulary_,
                              workspace.gradients + i * vocabulary_);
      }
    });
  }

  // Writes dloss/dlogits of one row, returns its loss.
  double differentiate_row(std::int32_t target, std::int64_t row, float loss_scale, const float* logits,
                           T* gradients) const {
    if (target < 0) {
      std::fill(gradients, gradients + vocabulary_, T{});
      return 0;
    }
    checked_token("linear_cross_entropy_backward", target, row, vocabulary_);
    const RowLoss loss = row_loss(logits, vocabulary_, target);
    const float factor = loss_scale / loss.sum;
    const float of_target = fast_exp(logits[target] - loss.highest) * factor - loss_scale;
#pragma omp simd
    for (std::int64_t i = 0; i < vocabulary_; ++i) {
      gradients[i] = narrow<T>(fast_exp(logits[i] - loss.highest) * factor);
    }
    gradients[target] = narrow<T>(of_target);
    return loss.loss;
  }

  std::int64_t rows_, hidden_, vocabulary_;
  DType dtype_;
  Partition chunks_;
  ChunkProduct logits_, dx_, dtable_;
};

}  // namespace

std::unique_ptr<Kernel> make_linear_cross_entropy_backward(const graph::Graph& graph, const graph::Op& op) {
  return make_for_dtype<LinearCrossEntropyBackward>(graph, op, input(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
