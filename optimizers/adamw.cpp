#include "optimizers/adamw.h"

#include <cmath>

namespace l2l::optimizers {

AdamWConstants::AdamWConstants(const AdamWSettings& settings)
    : beta1(settings.beta1), rest1(1 - settings.beta1), beta2(settings.beta2), rest2(1 - settings.beta2) {
  const double rate = settings.learning_rate, root = std::sqrt(static_cast<double>(settings.correction2));
  keep = static_cast<float>(1 - rate * static_cast<double>(settings.weight_decay));
  step = static_cast<float>(rate * root / static_cast<double>(settings.correction1));
  epsilon = static_cast<float>(static_cast<double>(settings.epsilon) * root);
}

}  // namespace l2l::optimizers
