// Roots for 8-bit codes, by Newton's method from a first guess in integers: cheaper than the processor's own, and made
// of exactly rounded operations, so that every instruction set gives the same bits. Arguments: 0, or normal numbers up
// to 2^60.
#pragma once

#include "optimizers/vector/tail.h"

namespace l2l::optimizers {

// Relative error below 1e-5.
template <class P>
inline __attribute__((always_inline)) P rough_sqrt(P x) {
  using Words = typename P::Words;
  P y = from_bits(Words::all(0x5f3759dfu) - shift_right<1>(bits(x)));  // 1 / sqrt(x)
  const P half = x * P::all(0.5f), most = P::all(1.5f);
  y = y * (most - half * y * y);
  y = y * (most - half * y * y);
  return x * y;
}

// Relative error below 1e-4.
template <class P>
inline __attribute__((always_inline)) P rough_fourth_root(P x) {
  using Words = typename P::Words;
  P y = from_bits(Words::all(0x4f58cae5u) - shift_right<2>(bits(x)));  // x^(-1/4)
  const P quarter = x * P::all(0.25f), most = P::all(1.25f);
  P square = y * y;
  y = y * (most - quarter * square * square);
  square = y * y;
  y = y * (most - quarter * square * square);
  return x * y * (y * y);
}

}  // namespace l2l::optimizers
