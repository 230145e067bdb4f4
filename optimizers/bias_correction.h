// Bias correction of Adam's moments (Kingma & Ba, ICLR 2015, section 3).
#pragma once

#include <cmath>
#include <cstdint>

namespace l2l::optimizers {

// Fills in the bias corrections (computed in double) of AdamW's or LAMB's settings for update number `count`, from 1.
template <typename Settings>
Settings with_bias_correction(Settings settings, std::uint64_t count) {
  const double t = static_cast<double>(count);
  settings.correction1 = static_cast<float>(1 - std::pow(static_cast<double>(settings.beta1), t));
  settings.correction2 = static_cast<float>(1 - std::pow(static_cast<double>(settings.beta2), t));
  return settings;
}

}  // namespace l2l::optimizers
