// LAMB (You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020, algorithm 2):
// Adam's direction, weight decay inside it, scaled per tensor by the ratio of the norms of weights and direction; that
// is 1 of norms and biases, which both the authors' code and NVIDIA's leave out.
//
//   r = (m / correction1) / (sqrt(v / correction2) + epsilon) + decay w
//   w -= learning_rate trust_ratio(|w|, |r|) r
//
// Two passes over a tensor, since the norms are needed first. The second pass computes r again from w and the stored
// moments instead of storing it: the same bits with fp32 moments; with rounded ones the ratio is that of r before m and
// v were rounded.
#pragma once

#include "optimizers/bias_correction.h"
#include "optimizers/rounding.h"

namespace l2l::optimizers {

struct LambSettings {
  float learning_rate = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-6f;
  float weight_decay = 0;  // 0 for parameters without decay (norms, biases)
  float correction1 = 1;   // 1 - beta1^t, t = this layer's own update count, from 1
  float correction2 = 1;   // 1 - beta2^t
};

// Arguments of the kernels; computed in double, rounded once.
struct LambConstants {
  explicit LambConstants(const LambSettings& settings);
  float beta1, rest1, beta2, rest2, scale, epsilon, decay;
  double learning_rate;
};

// Sums of squares over a tensor or a part of one; those of a tensor are the sums over its parts.
struct LambSquares {
  double weights = 0;    // of w^2
  double direction = 0;  // of r^2
};

// |w| / |r|; 1 where either is 0.
double trust_ratio(const LambSquares& squares);

// LambSquares in sixteen lanes: element i of a part adds to lane i % 16, or i % 32 / 2 where the loop takes pairs of
// rows.
struct LambLanes {
  double weights[16] = {};
  double direction[16] = {};
  LambSquares sum() const;  // lanes in ascending order
};

// r of one row, with  sqrt(correction2) / correction1 m / (sqrt(v) + epsilon sqrt(correction2)) + decay w.
template <class P>
class LambDirection {
 public:
  explicit __attribute__((always_inline)) LambDirection(const LambConstants& c)
      : scale_(P::all(c.scale)), epsilon_(P::all(c.epsilon)), decay_(P::all(c.decay)) {}
  __attribute__((always_inline)) P of(P w, P m, P v) const {
    return fused_sum(decay_, w, scale_ * m / (sqrt(v) + epsilon_));
  }

 private:
  P scale_, epsilon_, decay_;
};

// The first pass over a part: updates the moments and adds squares to `lanes`. `Squares`: the pack's sums in double.
template <class P, class Squares>
class LambMoments {
 public:
  static constexpr bool kWritesMaster = false, kWritesMoments = true;
  template <class Q>
  using Rounding = StochasticRounding<Q>;
  __attribute__((always_inline)) LambMoments(const LambConstants& c, const LambLanes& lanes)
      : direction_(c),
        beta1_(P::all(c.beta1)),
        rest1_(P::all(c.rest1)),
        beta2_(P::all(c.beta2)),
        rest2_(P::all(c.rest2)),
        weights_(Squares::load(lanes.weights)),
        directions_(Squares::load(lanes.direction)) {}

  __attribute__((always_inline)) void update(P g, P& w, P& m, P& v) {
    m = fused_sum(beta1_, m, rest1_ * g);
    v = fused_sum(beta2_, v, rest2_ * g * g);
    weights_.add(w);
    directions_.add(direction_.of(w, m, v));
  }
  __attribute__((always_inline)) void store(LambLanes& lanes) const {
    weights_.store(lanes.weights);
    directions_.store(lanes.direction);
  }

 private:
  LambDirection<P> direction_;
  P beta1_, rest1_, beta2_, rest2_;
  Squares weights_, directions_;
};

// The second pass; step = learning_rate * ratio of the whole tensor.
template <class P>
class LambApply {
 public:
  static constexpr bool kWritesMaster = true, kWritesMoments = false;
  template <class Q>
  using Rounding = StochasticRounding<Q>;
  __attribute__((always_inline)) LambApply(const LambConstants& c, float step) : direction_(c), step_(P::all(step)) {}
  __attribute__((always_inline)) void update(P, P& w, P& m, P& v) const { w = w - step_ * direction_.of(w, m, v); }

 private:
  LambDirection<P> direction_;
  P step_;
};

}  // namespace l2l::optimizers
