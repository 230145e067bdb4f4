// Stochastic gradient descent with momentum, in PyTorch's form: b = momentum b + (g + decay w); w -= learning_rate b.
// The buffer b, its only moment, starts as zeros.
#pragma once

#include "optimizers/rounding.h"

namespace l2l::optimizers {

struct SgdSettings {
  float learning_rate = 0;
  float momentum = 0.9f;   // in [0, 1); 0: plain gradient descent
  float weight_decay = 0;  // 0 for parameters without decay (norms, biases)
};

// One row. Every operation is rounded by itself, in this order.
template <class P>
class Sgd {
 public:
  static constexpr bool kWritesMaster = true, kWritesMoments = true;
  template <class Q>
  using Rounding = StochasticRounding<Q>;
  explicit __attribute__((always_inline)) Sgd(const SgdSettings& s)
      : rate_(P::all(s.learning_rate)), momentum_(P::all(s.momentum)), decay_(P::all(s.weight_decay)) {}

  __attribute__((always_inline)) void update(P g, P& w, P& b, P&) const {
    b = momentum_ * b + (g + decay_ * w);
    w = w - rate_ * b;
  }

 private:
  P rate_, momentum_, decay_;
};

}  // namespace l2l::optimizers
