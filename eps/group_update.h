// One update of a group by the run's optimizer.
#pragma once

#include <cstdint>
#include <vector>

#include "core/workers.h"
#include "eps/group_gradient.h"
#include "eps/group_memory.h"
#include "optimizers/optimizer.h"

namespace l2l::eps {

// Room for the sums behind LAMB's trust ratios, by block; nothing for other optimizers. Allocates in reserve() alone.
struct UpdateWorkspace {
  std::vector<optimizers::LambSquares> squares;
  std::vector<BlockRange> batches;  // of parameters, not blocks

  void reserve(const GroupMemory& memory, const optimizers::Optimizer& optimizer);
};

// Multiplies the gradient by `factor` and updates the group. `optimizer` is that of this update, number `count` from 1;
// where a parameter has no weight decay, its own is ignored. The bits do not depend on the number of workers.
void update_group(GroupMemory& memory, const Contributions& contributions, float factor,
                  const optimizers::Optimizer& optimizer, std::uint64_t count, Workers& workers,
                  UpdateWorkspace& workspace);

}  // namespace l2l::eps
