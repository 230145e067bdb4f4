// Loss scaling of fp16 (Micikevicius et al., "Mixed Precision Training", ICLR 2018): the loss is multiplied by a
// factor, so that small gradients stay above the smallest half; the parameter server divides the gradients by it.
#pragma once

#include <cstdint>

namespace l2l::optimizers {

// A value. Dynamic: halves after a step whose gradients overflowed, which is then skipped; doubles after
// `growth_interval` steps in a row without one; a power of two in [kLeast, kMost], so scaling and unscaling are exact.
// Fixed: stays, and no step may be skipped.
class LossScaler {
 public:
  static constexpr double kLeast = 1, kMost = 16777216, kInitial = 65536;

  // 1 and fixed: no scaling.
  LossScaler() = default;
  static LossScaler fixed(double scale) { return LossScaler(scale, 0); }
  // `growth_interval` is at least 1.
  static LossScaler dynamic(std::uint64_t growth_interval, double scale = kInitial) {
    return LossScaler(scale, growth_interval);
  }

  double scale() const { return scale_; }
  bool is_dynamic() const { return growth_interval_ > 0; }
  // Whether an overflow can be answered with a smaller scale.
  bool may_shrink() const { return is_dynamic() && scale_ > kLeast; }
  // Steps in a row without an overflow since the scale last changed.
  std::uint64_t good_steps() const { return good_steps_; }

  // To be called after each step.
  void add_step(bool overflowed);
  // Of a checkpoint. `scale` is a power of two in [kLeast, kMost]. Dynamic alone.
  void restore(double scale, std::uint64_t good_steps);

 private:
  LossScaler(double scale, std::uint64_t growth_interval) : scale_(scale), growth_interval_(growth_interval) {}

  double scale_ = 1;
  std::uint64_t growth_interval_ = 0;  // 0: fixed
  std::uint64_t good_steps_ = 0;
};

}  // namespace l2l::optimizers
