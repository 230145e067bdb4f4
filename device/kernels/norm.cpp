// Layer norm (kRms = false) and RMS norm (kRms = true) on the host.
#include <cmath>

#include "device/kernels/compute_rows.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"

namespace l2l::device::kernels {
namespace {

// Inputs x, gain and bias (RMS norm: no bias), outputs y, mean and 1 / deviation (RMS norm: only 1 / rms).
template <typename T, bool kRms>
class NormForward final : public Kernel {
 public:
  NormForward(const OpView& op)
      : rows_(op.output(0).shape[0]),
        hidden_(op.output(0).shape[1]),
        epsilon_(op.attributes.epsilon),
        offset_(op.attributes.unit_offset ? 1.0f : 0.0f) {
    op.require_dtype(op.output(0).dtype, {0, 1});
    if (!kRms) op.require_dtype(op.output(0).dtype, {2});
    if (!kRms) op.require_dtype(DType::f32, {4});
    op.require_dtype(DType::f32, {kInverse});
  }

  Bytes workspace(int threads) const override { return Rows::workspace(threads, hidden_); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const Partition blocks = row_blocks(rows_, hidden_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int slot) {
      Rows rows(workspace, slot, hidden_);
      const auto* gain = rows.read(as<T>(operands[1]));
      const auto* bias = kRms ? nullptr : rows.read(as<T>(operands[2]));
      for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        Rows its = rows;
        const auto* x = its.read(as<T>(operands[0]) + row * hidden_);
        T* const y = as<T>(operands[kY]) + row * hidden_;
        auto* result = its.write(y);
        const auto [mean, inverse] = normalize(x, gain, bias, result);
        its.written(result, y);
        if constexpr (!kRms) as<float>(operands[4])[row] = mean;
        as<float>(operands[kInverse])[row] = inverse;
      }
    });
  }

 private:
  using Rows = ComputeRows<T, 4>;
  static constexpr std::size_t kY = kRms ? 2 : 3, kInverse = kRms ? 3 : 5;

  struct Statistics {
    float mean, inverse;
  };

  // Of one row, of the type that it is computed in. RMS norm: mean 0, and no bias.
  template <typename U>
  Statistics normalize(const U* x, const U* gain, const U* bias, U* y) const {
    const float size = static_cast<float>(hidden_);
    if constexpr (kRms) {
      const float squares = sum_of(hidden_, [x](std::int64_t i) { return widen(x[i]) * widen(x[i]); });
      const float inverse = 1.0f / std::sqrt(squares / size + epsilon_);
#pragma omp simd
      for (std::int64_t i = 0; i < hidden_; ++i) y[i] = narrow<U>(widen(x[i]) * inverse * (offset_ + widen(gain[i])));
      return {0, inverse};
    } else {
      const float mean = sum_of(hidden_, [x](std::int64_t i) { return widen(x[i]); }) / size;
      const float squares =
          sum_of(hidden_, [x, mean](std::int64_t i) { return (widen(x[i]) - mean) * (widen(x[i]) - mean); });
      const float inverse = 1.0f / std::sqrt(squares / size + epsilon_);
#pragma omp simd
      for (std::int64_t i = 0; i < hidden_; ++i) {
        y[i] = narrow<U>((widen(x[i]) - mean) * inverse * widen(gain[i]) + widen(bias[i]));
      }
      return {mean, inverse};
    }
  }

  std::int64_t rows_, hidden_;
  float epsilon_;
  float offset_;  // RMS norm: the gain is offset + weight
};

template <typename T>
using LayerNorm = NormForward<T, false>;
template <typename T>
using RmsNorm = NormForward<T, true>;

}  // namespace

const Factory make_layer_norm = make_for_output<LayerNorm>;
const Factory make_rms_norm = make_for_output<RmsNorm>;

}  // namespace l2l::device::kernels
