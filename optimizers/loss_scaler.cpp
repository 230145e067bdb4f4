#include "optimizers/loss_scaler.h"

#include <algorithm>

namespace l2l::optimizers {

void LossScaler::add_step(bool overflowed) {
  if (!is_dynamic()) return;
  if (overflowed) {
    scale_ = std::max(scale_ / 2, kLeast);
    good_steps_ = 0;
  } else if (++good_steps_ >= growth_interval_) {
    scale_ = std::min(scale_ * 2, kMost);
    good_steps_ = 0;
  }
}

void LossScaler::restore(double scale, std::uint64_t good_steps) {
  scale_ = scale;
  good_steps_ = good_steps;
}

}  // namespace l2l::optimizers
