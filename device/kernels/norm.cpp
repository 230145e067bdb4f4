// Layer norm (kRms = false) and RMS norm (kRms = true) on the host.
#include <algorithm>
#include <cmath>

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"
#include "device/kernels/vector_rows.h"

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

  Bytes workspace(int threads) const override { return Rows::workspace(threads, hidden_, kCopies); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const Partition blocks = row_blocks(rows_, hidden_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int slot) {
      const Rows rows(workspace, slot, hidden_, kCopies);
      const float* gain = rows.read(kGain, as<T>(operands[1]));
      const float* bias = kRms ? nullptr : rows.read(kBias, as<T>(operands[2]));
      const std::int64_t end = blocks.end(block), step = rows_at_once();
      for (std::int64_t row = blocks.begin(block); row < end; row += step) {
        normalize(operands, row, std::min(step, end - row), rows, gain, bias);
      }
    });
  }

 private:
  using Rows = VectorRows<T>;
  static constexpr std::size_t kY = kRms ? 2 : 3, kInverse = kRms ? 3 : 5;
  static constexpr std::int64_t kMostRows = 4, kGain = kMostRows, kBias = kGain + 1, kCopies = kRms ? kBias : kBias + 1;

  // Rows are taken several at a time, pass by pass: the latency of one row's sums hides behind the next row. All of
  // them fit L1.
  std::int64_t rows_at_once() const { return std::clamp<std::int64_t>(2048 / hidden_, 1, kMostRows); }

  // Rows [first, first + count). RMS norm: no bias.
  void normalize(Operands operands, std::int64_t first, std::int64_t count, const Rows& rows, const float* gain,
                 const float* bias) const {
    const float size = static_cast<float>(hidden_);
    const float* x[kMostRows];
    float mean[kMostRows] = {}, squares[kMostRows];
    for (std::int64_t k = 0; k < count; ++k) {
      const T* const row = as<T>(operands[0]) + (first + k) * hidden_;
      if constexpr (kRms) {
        squares[k] = rows.read_sum(k, row, x[k], [](std::int64_t, FloatVector value) { return value * value; });
      } else {
        mean[k] = rows.read_sum(k, row, x[k], [](std::int64_t, FloatVector value) { return value; }) / size;
      }
    }
    for (std::int64_t k = 0; k < count && !kRms; ++k) {
      const float* const row = x[k];
      const float center = mean[k];
      rows.pad(k, center);
      squares[k] = sum_of_vectors(rows.width(), [=](std::int64_t i) {
        const FloatVector deviation = load_vector(row + i) - center;
        return deviation * deviation;
      });
    }
    for (std::int64_t k = 0; k < count; ++k) {
      const float inverse = 1.0f / std::sqrt(squares[k] / size + epsilon_);
      write(rows, x[k], gain, bias, mean[k], inverse, as<T>(operands[kY]) + (first + k) * hidden_);
      if constexpr (!kRms) as<float>(operands[4])[first + k] = mean[k];
      as<float>(operands[kInverse])[first + k] = inverse;
    }
  }

  void write(const Rows& rows, const float* x, const float* gain, const float* bias, float mean, float inverse,
             T* y) const {
    rows.write(y, [=, offset = offset_](std::int64_t i) {
      if constexpr (kRms) return load_vector(x + i) * inverse * (offset + load_vector(gain + i));
      return (load_vector(x + i) - mean) * inverse * load_vector(gain + i) + load_vector(bias + i);
    });
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
