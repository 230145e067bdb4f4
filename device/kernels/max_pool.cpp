#include <limits>

#include "device/kernels/factories.h"
#include "device/kernels/pool.h"

namespace l2l::device::kernels {
namespace {

// A NaN is larger than all numbers.
struct Largest {
  static constexpr float kFirst = -std::numeric_limits<float>::infinity();
  __attribute__((always_inline)) static float take(float largest, float x) {
    return x > largest || x != x ? x : largest;
  }
  __attribute__((always_inline)) static float finish(float largest, float) { return largest; }
};

}  // namespace

const Factory make_max_pool = make_for_output<Pool<Largest>::OfType>;

}  // namespace l2l::device::kernels
