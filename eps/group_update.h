// One update of a group by the run's optimizer.
#pragma once

#include <cstdint>
#include <vector>

#include "core/workers.h"
#include "eps/group_gradient.h"
#include "eps/group_memory.h"
#include "optimizers/optimizer.h"

namespace l2l::eps {

// Memory for the sums of LAMB's trust ratios; other optimizers need none. Only reserve() allocates. Thread-bound.
struct UpdateWorkspace {
  std::vector<optimizers::LambSquares> squares;  // by block
  std::vector<BlockRange> batches;               // of parameters, not blocks

  void reserve(const GroupMemory& memory, const optimizers::Optimizer& optimizer);
};

// Multiplies the gradient by `factor` and updates the group. `optimizer`: its settings in this update, number `count`
// from 1; their weight decay applies to the parameters that have it. Statistics move to what `microbatches` in each
// contribution measured. The bits do not depend on the number of workers.
void update_group(GroupMemory& memory, const Contributions& contributions, float factor,
                  const optimizers::Optimizer& optimizer, std::uint64_t count, int microbatches, Workers& workers,
                  UpdateWorkspace& workspace);

}  // namespace l2l::eps
