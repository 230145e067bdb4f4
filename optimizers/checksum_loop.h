// The loop of the checksum, over the Pack of an instruction set. Only checksum_*.cpp include it (see kernel_table.h).
#pragma once

#include <cstddef>
#include <cstring>

#include "optimizers/checksum.h"

namespace l2l::optimizers {

template <class Words>
__attribute__((always_inline)) inline Words rotated(Words words) {
  return shift_left<7>(words) | shift_right<25>(words);
}

template <class P>
void checksum_loop(ChecksumLanes& lanes, const void* data, std::size_t bytes) {
  using Words = typename P::Words;
  const char* const from = static_cast<const char*>(data);
  Words sum = Words::load(lanes.sum), sum_of_sums = Words::load(lanes.sum_of_sums);
  std::size_t i = 0;
  for (; i + 64 <= bytes; i += 64) {
    sum = sum + Words::load(from + i);
    sum_of_sums = rotated(sum_of_sums) + sum;
  }
  if (i < bytes) {
    char row[64] = {};
    std::memcpy(row, from + i, bytes - i);
    sum = sum + Words::load(row);
    sum_of_sums = rotated(sum_of_sums) + sum;
  }
  sum.store(lanes.sum);
  sum_of_sums.store(lanes.sum_of_sums);
}

}  // namespace l2l::optimizers
