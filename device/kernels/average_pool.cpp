#include "device/kernels/factories.h"
#include "device/kernels/pool.h"

namespace l2l::device::kernels {
namespace {

struct Mean {
  static constexpr float kFirst = 0;
  __attribute__((always_inline)) static float take(float sum, float x) { return sum + x; }
  __attribute__((always_inline)) static float finish(float sum, float elements) { return sum / elements; }
};

}  // namespace

const Factory make_average_pool = make_for_output<Pool<Mean>::OfType>;

}  // namespace l2l::device::kernels
