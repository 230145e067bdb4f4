// AdamW (Loshchilov & Hutter, ICLR 2019): Adam with decoupled weight decay.
//
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g g
//   w = (1 - lr decay) w - (lr / correction1) m / (sqrt(v) / sqrt(correction2) + epsilon)
//
// computed as  keep w - step m / (sqrt(v) + epsilon')  with step = lr sqrt(correction2) / correction1 and epsilon' =
// epsilon sqrt(correction2): one root and one division per element.
#pragma once

#include "optimizers/bias_correction.h"
#include "optimizers/rounding.h"

namespace l2l::optimizers {

struct AdamWSettings {
  float learning_rate = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0;  // 0 for parameters without decay (norms, biases)
  float correction1 = 1;   // 1 - beta1^t, t = this layer's own update count, from 1
  float correction2 = 1;   // 1 - beta2^t
};

// Arguments of the kernel; computed in double, rounded once.
struct AdamWConstants {
  explicit AdamWConstants(const AdamWSettings& settings);
  float keep, beta1, rest1, beta2, rest2, step, epsilon;
};

// One row. A product that is added is fused with the sum: one rounding. Every other operation is rounded by itself, in
// this order.
template <class P>
class AdamW {
 public:
  static constexpr bool kWritesMaster = true, kWritesMoments = true;
  template <class Q>
  using Rounding = StochasticRounding<Q>;
  explicit __attribute__((always_inline)) AdamW(const AdamWConstants& c)
      : keep_(P::all(c.keep)),
        beta1_(P::all(c.beta1)),
        rest1_(P::all(c.rest1)),
        beta2_(P::all(c.beta2)),
        rest2_(P::all(c.rest2)),
        step_(P::all(c.step)),
        epsilon_(P::all(c.epsilon)) {}

  __attribute__((always_inline)) void update(P g, P& w, P& m, P& v) const {
    m = fused_sum(beta1_, m, rest1_ * g);
    v = fused_sum(beta2_, v, rest2_ * g * g);
    w = fused_difference(keep_, w, step_ * m / (sqrt(v) + epsilon_));
  }

 private:
  P keep_, beta1_, rest1_, beta2_, rest2_, step_, epsilon_;
};

}  // namespace l2l::optimizers
