#include <cmath>

#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
float mean_of(const T* x, std::int64_t count) {
  return sum_of(count, [x](std::int64_t i) { return widen(x[i]); }) / static_cast<float>(count);
}

template <typename T>
float variance_of(const T* x, float mean, std::int64_t count) {
  const float sum = sum_of(count, [x, mean](std::int64_t i) { return (widen(x[i]) - mean) * (widen(x[i]) - mean); });
  return sum / static_cast<float>(count);
}

template <typename T>
class LayerNorm final : public Kernel {
 public:
  LayerNorm(const compiler::Graph& graph, const compiler::Op& op)
      : rows_(output(graph, op, 0).shape[0]), hidden_(output(graph, op, 0).shape[1]), epsilon_(op.attributes.epsilon) {
    require_dtype(graph, op, output(graph, op, 0).dtype, {0, 1, 2});
    require_dtype(graph, op, DType::f32, {4, 5});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const Partition blocks = row_blocks(rows_, hidden_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) normalize(operands, row);
    });
  }

 private:
  void normalize(std::span<std::byte* const> operands, std::int64_t row) const {
    const T* x = as<T>(operands[0]) + row * hidden_;
    const T* gain = as<T>(operands[1]);
    const T* bias = as<T>(operands[2]);
    T* y = as<T>(operands[3]) + row * hidden_;
    const float mean = mean_of(x, hidden_);
    const float inverse_deviation = 1.0f / std::sqrt(variance_of(x, mean, hidden_) + epsilon_);
#pragma omp simd
    for (std::int64_t i = 0; i < hidden_; ++i) {
      y[i] = narrow<T>((widen(x[i]) - mean) * inverse_deviation * widen(gain[i]) + widen(bias[i]));
    }
    as<float>(operands[4])[row] = mean;
    as<float>(operands[5])[row] = inverse_deviation;
  }

  std::int64_t rows_, hidden_;
  float epsilon_;
};

}  // namespace

std::unique_ptr<Kernel> make_layer_norm(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<LayerNorm>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
