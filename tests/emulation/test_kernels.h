// Launches of the kernels in test_kernels.cu, on the default stream; pointers are of device memory.
#pragma once

#include <cstddef>

namespace l2l::test {

// sums[r] = sum of x[r, :]; without the barrier between writing and reading parts of the sum it has a race.
void launch_sum_rows(const float* x, float* sums, int rows, int columns, bool with_barrier);
// to = from in reverse, through `shared_bytes` of dynamic shared memory.
void launch_reverse(const int* from, int* to, unsigned int count, std::size_t shared_bytes);
void allow_reverse(std::size_t bytes);
// out[64]: lane below + 100 * lane above + 10000 * lane 5 of each group of 8.
void launch_lanes(unsigned int* out);
void launch_divergent_barrier();
void launch_divergent_warp();
void launch_half_a_warp();
void launch_write_behind();
// out[b]: what static and dynamic shared memory hold at first.
void launch_read_unwritten(float* out, unsigned int blocks);
// Reads x in pieces of 16 bytes that begin 4 bytes apart.
void launch_misaligned(const float* x, float* y);
// Reads `index` of a static array of 32.
void launch_index_behind_array(int* out, int index);
void launch_index_of_block(int* last, unsigned int blocks);

}  // namespace l2l::test
