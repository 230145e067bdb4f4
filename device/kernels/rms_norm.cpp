#include <cmath>

#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class RmsNorm final : public Kernel {
 public:
  RmsNorm(const compiler::Graph& graph, const compiler::Op& op)
      : rows_(output(graph, op, 0).shape[0]), hidden_(output(graph, op, 0).shape[1]), epsilon_(op.attributes.epsilon) {
    require_dtype(graph, op, output(graph, op, 0).dtype, {0, 1});
    require_dtype(graph, op, DType::f32, {3});
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
    T* y = as<T>(operands[2]) + row * hidden_;
    const float squares = sum_of(hidden_, [x](std::int64_t i) { return widen(x[i]) * widen(x[i]); });
    const float inverse_rms = 1.0f / std::sqrt(squares / static_cast<float>(hidden_) + epsilon_);
#pragma omp simd
    for (std::int64_t i = 0; i < hidden_; ++i) y[i] = narrow<T>(widen(x[i]) * inverse_rms * widen(gain[i]));
    as<float>(operands[3])[row] = inverse_rms;
  }

  std::int64_t rows_, hidden_;
  float epsilon_;
};

}  // namespace

std::unique_ptr<Kernel> make_rms_norm(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<RmsNorm>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
