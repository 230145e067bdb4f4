// Initial weights: a pure function of the seed, the group's id, the parameter's index and the element's index.
#pragma once

#include <cstdint>

#include "core/model_layout.h"
#include "core/workers.h"
#include "eps/group_memory.h"

namespace l2l::eps {

// Writes the masters of all parameters of `group`. Normals by Box and Muller (1958) on Philox words.
void draw_initial_weights(GroupMemory& memory, const GroupSpec& group, std::uint64_t seed, Workers& workers);

}  // namespace l2l::eps
