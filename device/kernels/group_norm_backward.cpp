#include "device/kernels/factories.h"
#include "device/kernels/group_norm.h"
#include "device/kernels/row_sums.h"

namespace l2l::device::kernels {
namespace {

// Inputs dy, x, gain, mean and 1 / deviation, outputs dx, and as far as these are trained dgain (+=) and dbias (+=).
// With n = (x - mean) / deviation and g = dy * gain: dx = (g - mean(g) - n mean(g n)) / deviation over each group. Each
// sample's sums of dy n and of dy over its rows give these means, and dgain and dbias.
template <typename T>
class GroupNormBackward final : public Kernel {
 public:
  GroupNormBackward(const OpView& op) : strips_(op.attributes), trained_(op.outputs.size() - 1) {
    op.require_dtype(op.input(1).dtype, {0, 2, kDx});
    op.require_dtype(DType::f32, {3, 4});
    for (std::size_t i = 0; i < trained_; ++i) op.require_dtype(DType::f32, {kDx + 1 + i});
  }

  // [samples][dgain, dbias][channels]
  Bytes workspace(int) const override {
    return static_cast<Bytes>(strips_.samples() * 2 * strips_.channels()) * sizeof(float);
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const std::int64_t channels = strips_.channels();
    float* const partials = as<float>(workspace);
    strips_.for_each(workers, [&](const Strip& strip) {
      const std::int64_t group = strip.sample * strips_.groups() + strip.first_group;
      float mean[kMost], inverse[kMost];
      strips_.spread(strip, as<float>(operands[3]) + group, mean);
      strips_.spread(strip, as<float>(operands[4]) + group, inverse);
      differentiate(operands, strip, mean, inverse, partials + strip.sample * 2 * channels);
    });
    for (std::size_t i = 0; i < trained_; ++i) {
      add_partial_sums(partials + static_cast<std::int64_t>(i) * channels, strips_.samples(), 2 * channels, channels,
                       as<float>(operands[kDx + 1 + i]), workers);
    }
  }

 private:
  using Strip = GroupStrips::Strip;
  static constexpr std::int64_t kMost = GroupStrips::kMost;
  static constexpr std::size_t kDx = 5;

  // `mean`, `inverse`: by channel of a chunk. `dgain`: of the sample, and behind it its dbias.
  void differentiate(Operands operands, const Strip& strip, const float* mean, const float* inverse,
                     float* dgain) const {
    const T *const dy = as<T>(operands[0]), *const x = as<T>(operands[1]), *const gain = as<T>(operands[2]);
    const auto normalized = [=](std::int64_t place, std::int64_t i) {
      return (widen(x[place]) - mean[i]) * inverse[i];
    };
    double g_sums[kMost] = {}, projections[kMost] = {};
    strips_.for_chunks(strip, [&](std::int64_t first, std::int64_t count) {
      double gains[kMost], biases[kMost];
      strips_.sum_rows(strip, first, count, gains,
                       [=](std::int64_t place, std::int64_t i) { return widen(dy[place]) * normalized(place, i); });
      strips_.sum_rows(strip, first, count, biases, [=](std::int64_t place, std::int64_t) { return widen(dy[place]); });
      for (std::int64_t i = 0; i < count; ++i) {
        const double factor = static_cast<double>(widen(gain[first + i])) / strips_.group_elements();
        projections[strips_.group_of(i)] += factor * gains[i];
        g_sums[strips_.group_of(i)] += factor * biases[i];
        dgain[first + i] = static_cast<float>(gains[i]);
        dgain[strips_.channels() + first + i] = static_cast<float>(biases[i]);
      }
    });
    float mean_g[kMost], projection[kMost];
    strips_.spread(strip, g_sums, mean_g);
    strips_.spread(strip, projections, projection);
    T* const dx = as<T>(operands[kDx]);
    strips_.for_chunks(strip, [&](std::int64_t first, std::int64_t count) {
      float its_gain[kMost];
      widen_row(gain + first, its_gain, count);
      strips_.for_places(strip, first, [&](std::int64_t place) {
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) {
          const float g = widen(dy[place + i]) * its_gain[i];
          dx[place + i] = narrow<T>((g - mean_g[i] - normalized(place + i, i) * projection[i]) * inverse[i]);
        }
      });
    });
  }

  GroupStrips strips_;
  std::size_t trained_;  // parameters
};

}  // namespace

const Factory make_group_norm_backward = make_for_input<GroupNormBackward, 1>;

}  // namespace l2l::device::kernels
