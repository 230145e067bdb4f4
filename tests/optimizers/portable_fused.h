// fused_sum() of the portable pack, compiled as the portable kernels are: without fused multiply-adds.
#pragma once

namespace l2l::testing {

// x y + z of sixteen lanes, and the same computed in double without a correction.
void portable_fused_sum(const float* x, const float* y, const float* z, float* result);
void double_rounded_sum(const float* x, const float* y, const float* z, float* result);

}  // namespace l2l::testing
