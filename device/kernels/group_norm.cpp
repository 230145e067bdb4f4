#include "device/kernels/group_norm.h"

#include <cmath>

#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

// Of batch_norm the two inputs that group_norm has not are the running statistics.
template <typename T>
class GroupNorm final : public Kernel {
 public:
  GroupNorm(const OpView& op)
      : strips_(op.attributes), epsilon_(static_cast<double>(op.attributes.epsilon)), y_(op.inputs.size()) {
    for (std::size_t i = 0; i <= y_; ++i) op.require_dtype(op.output(0).dtype, {i});
    op.require_dtype(DType::f32, {y_ + 1, y_ + 2});
  }

  void run(Operands operands, std::byte*, const LaunchParameters& parameters, Workers& workers) const override {
    strips_.for_each(workers, [&](const Strip& strip) {
      const std::int64_t group = strip.sample * strips_.groups() + strip.first_group;
      float* const means = as<float>(operands[y_ + 1]) + group;
      float* const inverses = as<float>(operands[y_ + 2]) + group;
      float mean[kMost], inverse[kMost];
      if (y_ > 3 && !parameters.training) {
        read(as<T>(operands[3]) + group, as<T>(operands[4]) + group, strip, means, inverses, mean);
      } else {
        measure(as<T>(operands[0]), strip, means, inverses, mean);
      }
      strips_.spread(strip, inverses, inverse);
      normalize(operands, strip, mean, inverse);
    });
  }

 private:
  using Strip = GroupStrips::Strip;
  static constexpr std::int64_t kMost = GroupStrips::kMost;

  // Mean and 1 / deviation of each group; `mean`: by channel of a chunk.
  void measure(const T* x, const Strip& strip, float* means, float* inverses, float* mean) const {
    double sums[kMost];
    sum_groups(strip, sums, [x](std::int64_t place, std::int64_t) { return widen(x[place]); });
    for (std::int64_t i = 0; i < strip.groups; ++i) means[i] = static_cast<float>(sums[i] / strips_.group_elements());
    strips_.spread(strip, means, mean);
    sum_groups(strip, sums, [x, mean](std::int64_t place, std::int64_t i) {
      const float distance = widen(x[place]) - mean[i];
      return distance * distance;
    });
    for (std::int64_t i = 0; i < strip.groups; ++i) {
      inverses[i] = static_cast<float>(1.0 / std::sqrt(sums[i] / strips_.group_elements() + epsilon_));
    }
  }

  // The same from running statistics.
  void read(const T* mean_so_far, const T* variance, const Strip& strip, float* means, float* inverses,
            float* mean) const {
    for (std::int64_t i = 0; i < strip.groups; ++i) {
      means[i] = widen(mean_so_far[i]);
      inverses[i] = static_cast<float>(1.0 / std::sqrt(static_cast<double>(widen(variance[i])) + epsilon_));
    }
    strips_.spread(strip, means, mean);
  }

  // sums[i] = the sum of value(place in x, channel of the chunk) over group i of the strip.
  template <typename Value>
  void sum_groups(const Strip& strip, double* sums, const Value& value) const {
    std::fill_n(sums, strip.groups, 0.0);
    strips_.for_chunks(strip, [&](std::int64_t first, std::int64_t count) {
      double totals[kMost];
      strips_.sum_rows(strip, first, count, totals, value);
      for (std::int64_t i = 0; i < count; ++i) sums[strips_.group_of(i)] += totals[i];
    });
  }

  void normalize(Operands operands, const Strip& strip, const float* mean, const float* inverse) const {
    const T* const x = as<T>(operands[0]);
    T* const y = as<T>(operands[y_]);
    strips_.for_chunks(strip, [&](std::int64_t first, std::int64_t count) {
      float gain[kMost], bias[kMost];
      widen_row(as<T>(operands[1]) + first, gain, count);
      widen_row(as<T>(operands[2]) + first, bias, count);
      strips_.for_places(strip, first, [&](std::int64_t place) {
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) {
          y[place + i] = narrow<T>((widen(x[place + i]) - mean[i]) * inverse[i] * gain[i] + bias[i]);
        }
      });
    });
  }

  GroupStrips strips_;
  double epsilon_;
  std::size_t y_;  // the first output
};

}  // namespace

const Factory make_group_norm = make_for_output<GroupNorm>;
const Factory make_batch_norm = make_for_output<GroupNorm>;

}  // namespace l2l::device::kernels
