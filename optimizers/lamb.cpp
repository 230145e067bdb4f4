#include "optimizers/lamb.h"

#include <cmath>

namespace l2l::optimizers {

LambConstants::LambConstants(const LambSettings& settings)
    : beta1(settings.beta1),
      rest1(1 - settings.beta1),
      beta2(settings.beta2),
      rest2(1 - settings.beta2),
      decay(settings.weight_decay),
      learning_rate(static_cast<double>(settings.learning_rate)) {
  const double root = std::sqrt(static_cast<double>(settings.correction2));
  scale = static_cast<float>(root / static_cast<double>(settings.correction1));
  epsilon = static_cast<float>(static_cast<double>(settings.epsilon) * root);
}

double trust_ratio(const LambSquares& squares) {
  if (squares.weights == 0 || squares.direction == 0) return 1;
  return std::sqrt(squares.weights) / std::sqrt(squares.direction);
}

LambSquares LambLanes::sum() const {
  LambSquares squares;
  for (const double lane : weights) squares.weights += lane;
  for (const double lane : direction) squares.direction += lane;
  return squares;
}

}  // namespace l2l::optimizers
