#pragma once

namespace l2l::test {

// Prints for each speed case whose name contains `filter` the median and best time on `threads` workers, and GB/s (each
// operand once) and GFLOP/s (matrix products) at the best: on a shared machine the best is the kernel, the rest noise.
int run_speed(int threads, const char* filter);

}  // namespace l2l::test
