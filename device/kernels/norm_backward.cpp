// Gradients of layer norm (kRms = false) and RMS norm (kRms = true) on the host.
#include <algorithm>

#include "device/kernels/common/operands.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"
#include "device/kernels/row_sums.h"
#include "device/kernels/vector_rows.h"

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

  // Rows of each worker, and sums of each block: [blocks][dgain, dbias][width()].
  Bytes workspace(int threads) const override {
    return Rows::workspace(threads, hidden_, kCopies) + static_cast<Bytes>(blocks_.count() * sums()) * sizeof(float);
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    float* const partials = as<float>(workspace + Rows::workspace(workers.threads(), hidden_, kCopies));
    workers.parallel_for(blocks_.count(), [&](std::int64_t block, int slot) {
      float* const dgain = partials + block * sums();
      std::fill(dgain, dgain + sums(), 0.0f);
      const Rows rows(workspace, slot, hidden_, kCopies);
      const float* gain = rows.read(kGain, as<T>(operands[2]));
      const std::int64_t end = blocks_.end(block), step = rows_at_once();
      for (std::int64_t row = blocks_.begin(block); row < end; row += step) {
        differentiate(operands, row, std::min(step, end - row), rows, gain, dgain);
      }
    });
    for (std::size_t i = 0; i < trained_; ++i) {
      add_partial_sums(partials + i * width(), blocks_.count(), sums(), hidden_, as<float>(operands[kDx + 1 + i]),
                       workers);
    }
  }

 private:
  using Rows = VectorRows<T>;
  static constexpr std::size_t kInverse = kRms ? 3 : 4, kDx = kInverse + 1;
  static constexpr std::int64_t kMostRows = 4, kGain = 2 * kMostRows, kCopies = kGain + 1;

  // Short rows are taken several at a time, as in the forward pass.
  std::int64_t rows_at_once() const { return std::clamp<std::int64_t>(1024 / hidden_, 1, kMostRows); }

  std::int64_t width() const { return whole_vectors(hidden_); }
  std::int64_t sums() const { return kRms ? width() : 2 * width(); }

  static FloatVector normalized(FloatVector x, float mean, float inverse) {
    if constexpr (kRms) return x * inverse;
    return (x - mean) * inverse;
  }
  static FloatVector weighted(FloatVector dy, FloatVector gain, float offset) {
    if constexpr (kRms) return dy * (offset + gain);
    return dy * gain;
  }

  // One row, where its vectors lie, and what its first passes find.
  struct Row {
    const float *dy, *x;
    float mean, inverse, mean_g = 0, projection = 0;
  };

  // Rows [first, first + count). Adds to `dgain`, and behind it to dbias, which RMS norm has not.
  void differentiate(Operands operands, std::int64_t first, std::int64_t count, const Rows& rows, const float* gain,
                     float* dgain) const {
    Row own[kMostRows];
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t at = (first + k) * hidden_;
      own[k].mean = kRms ? 0.0f : as<float>(operands[3])[first + k];
      own[k].inverse = as<float>(operands[kInverse])[first + k];
      read_gradient(as<T>(operands[0]) + at, 2 * k, rows, gain, own[k]);
      read_input(as<T>(operands[1]) + at, 2 * k + 1, rows, gain, own[k], dgain);
    }
    for (std::int64_t k = 0; k < count; ++k) {
      write(own[k], rows, gain, as<T>(operands[kDx]) + (first + k) * hidden_);
    }
  }

  void read_gradient(const T* dy, std::int64_t copy, const Rows& rows, const float* gain, Row& row) const {
    if constexpr (kRms) {
      row.dy = rows.read(copy, dy);
    } else {
      const float sum = rows.read_sum(copy, dy, row.dy, [gain](std::int64_t i, FloatVector gradient) {
        return weighted(gradient, load_vector(gain + i), 0);
      });
      row.mean_g = sum / static_cast<float>(hidden_);
    }
  }

  void read_input(const T* x, std::int64_t copy, const Rows& rows, const float* gain, Row& row, float* dgain) const {
    const float* const dy = row.dy;
    const float mean = row.mean, inverse = row.inverse, offset = offset_;
    float* const dbias = dgain + width();
    const float sum = rows.read_sum(copy, x, row.x, [=](std::int64_t i, FloatVector input) {
      const FloatVector gradient = load_vector(dy + i), unit = normalized(input, mean, inverse);
      store_vector(dgain + i, load_vector(dgain + i) + gradient * unit);
      if constexpr (!kRms) store_vector(dbias + i, load_vector(dbias + i) + gradient);
      return weighted(gradient, load_vector(gain + i), offset) * unit;
    });
    row.projection = sum / static_cast<float>(hidden_);
  }

  void write(const Row& row, const Rows& rows, const float* gain, T* dx) const {
    const float *const dy = row.dy, *const x = row.x;
    const float mean = row.mean, inverse = row.inverse, mean_g = row.mean_g, projection = row.projection;
    const float offset = offset_;
    rows.write(dx, [=](std::int64_t i) {
      const FloatVector g = weighted(load_vector(dy + i), load_vector(gain + i), offset);
      const FloatVector unit = normalized(load_vector(x + i), mean, inverse);
      if constexpr (kRms) return (g - unit * projection) * inverse;
      return (g - mean_g - unit * projection) * inverse;
    });
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
