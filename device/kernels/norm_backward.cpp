// Gradients of layer norm (kRms = false) and RMS norm (kRms = true) on the host.
#include <algorithm>

#include "device/kernels/common/operands.h"
#include "device/kernels/compute_rows.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"
#include "device/kernels/row_sums.h"

namespace l2l::device::kernels {
namespace {

// Inputs dy, x, gain, mean (RMS norm: none) and 1 / deviation, outputs dx, and as far as these are trained dgain (+=)
// and dbias (+=; RMS norm: none).
// With n = (x - mean) / deviation and g = dy * gain: dx = (g - mean(g) - n mean(g n)) / deviation, dgain is the sum of
// dy n over rows, dbias that of dy. RMS norm has no mean(g), and its mean is 0.
template <typename T, bool kRms>
class NormBackward final : public Kernel {
 public:
  NormBackward(const OpView& op)
      : hidden_(op.input(1).shape[1]),
        blocks_(sum_blocks(op.input(1).shape[0])),
        trained_(op.outputs.size() - 1),
        offset_(op.attributes.unit_offset ? 1.0f : 0.0f) {
    op.require_dtype(op.input(1).dtype, {0, 2, kDx});
    op.require_dtype(DType::f32, {kInverse});
    if (!kRms) op.require_dtype(DType::f32, {3});
    for (std::size_t i = 0; i < trained_; ++i) op.require_dtype(DType::f32, {kDx + 1 + i});
  }

  // Rows of each worker, and sums of each block: [blocks][dgain, dbias][hidden].
  Bytes workspace(int threads) const override {
    return Rows::workspace(threads, hidden_) + static_cast<Bytes>(blocks_.count() * sums()) * sizeof(float);
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    float* const partials = as<float>(workspace + Rows::workspace(workers.threads(), hidden_));
    workers.parallel_for(blocks_.count(), [&](std::int64_t block, int slot) {
      float* const dgain = partials + block * sums();
      std::fill(dgain, dgain + sums(), 0.0f);
      Rows rows(workspace, slot, hidden_);
      const auto* gain = rows.read(as<T>(operands[2]));
      for (std::int64_t row = blocks_.begin(block); row < blocks_.end(block); ++row) {
        Rows its = rows;
        const auto* dy = its.read(as<T>(operands[0]) + row * hidden_);
        const auto* x = its.read(as<T>(operands[1]) + row * hidden_);
        T* const dx = as<T>(operands[kDx]) + row * hidden_;
        auto* result = its.write(dx);
        const float mean = kRms ? 0.0f : as<float>(operands[3])[row], inverse = as<float>(operands[kInverse])[row];
        differentiate(dy, x, gain, mean, inverse, result, dgain);
        its.written(result, dx);
      }
    });
    for (std::size_t i = 0; i < trained_; ++i) {
      add_partial_sums(partials + i * hidden_, blocks_.count(), sums(), hidden_, as<float>(operands[kDx + 1 + i]),
                       workers);
    }
  }

 private:
  using Rows = ComputeRows<T, 4>;
  static constexpr std::size_t kInverse = kRms ? 3 : 4, kDx = kInverse + 1;

  std::int64_t sums() const { return kRms ? hidden_ : 2 * hidden_; }

  // One row, of the type that it is computed in. Adds to `dgain`, and behind it to dbias, which RMS norm has not.
  template <typename U>
  void differentiate(const U* dy, const U* x, const U* gain, float mean, float inverse, U* dx, float* dgain) const {
    float* const dbias = dgain + hidden_;
    const auto normalized = [=](std::int64_t i) {
      if constexpr (kRms) return widen(x[i]) * inverse;
      return (widen(x[i]) - mean) * inverse;
    };
    const float offset = offset_;
    const auto g = [=](std::int64_t i) {
      if constexpr (kRms) return widen(dy[i]) * (offset + widen(gain[i]));
      return widen(dy[i]) * widen(gain[i]);
    };
#pragma omp simd
    for (std::int64_t i = 0; i < hidden_; ++i) {
      const float gradient = widen(dy[i]);
      dgain[i] += gradient * normalized(i);
      if constexpr (!kRms) dbias[i] += gradient;
    }
    const float size = static_cast<float>(hidden_);
    const float mean_g = kRms ? 0.0f : sum_of(hidden_, g) / size;
    const float projection = sum_of(hidden_, [=](std::int64_t i) { return g(i) * normalized(i); }) / size;
#pragma omp simd
    for (std::int64_t i = 0; i < hidden_; ++i) {
      if constexpr (kRms) {
        dx[i] = narrow<U>((g(i) - normalized(i) * projection) * inverse);
      } else {
        dx[i] = narrow<U>((g(i) - mean_g - normalized(i) * projection) * inverse);
      }
    }
  }

  std::int64_t hidden_;
  Partition blocks_;
  std::size_t trained_;  // parameters
  float offset_;         // RMS norm: the gain is offset + weight
};

template <typename T>
using LayerNormBackward = NormBackward<T, false>;
template <typename T>
using RmsNormBackward = NormBackward<T, true>;

}  // namespace

const Factory make_layer_norm_backward = make_for_input<LayerNormBackward, 1>;
const Factory make_rms_norm_backward = make_for_input<RmsNormBackward, 1>;

}  // namespace l2l::device::kernels
