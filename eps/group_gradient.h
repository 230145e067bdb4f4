// The gradient of a group: the sum of its contributions in fp32, in a fixed order.
#pragma once

#include <cstddef>
#include <span>

#include "core/dtype.h"
#include "core/workers.h"
#include "eps/group_memory.h"

namespace l2l::eps {

// What one device brings of one use of a group: a flat array of the group's elements [begin, end).
struct Contribution {
  const std::byte* data = nullptr;
  std::int64_t begin = 0, end = 0;
};

// Contributions of one group, in the order in which they are summed. Their ranges begin and end at the group's cuts
// and cover every element.
struct Contributions {
  std::span<const Contribution> parts;
  DType type = DType::f32;
};

// Sum of squares of the gradient, in double; not finite exactly if an element of the gradient is not. `block_sums` has
// room for the group's blocks. The bits depend on the shape of the group alone.
double sum_of_squares(const GroupMemory& memory, const Contributions& contributions, Workers& workers,
                      std::span<double> block_sums);

// The gradient of [begin, begin + count), at most kChunk elements, multiplied by `factor` unless that is 1: in place
// where it needs no arithmetic, else in `buffer`.
std::span<const float> gradient(const Contributions& contributions, float factor, std::int64_t begin, std::size_t count,
                                ChunkBuffer& buffer);

}  // namespace l2l::eps
