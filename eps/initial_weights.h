// Initial weights: those of a source, or random numbers, which are a pure function of the seed, the group's id, the
// parameter's index and the element's index.
#pragma once

#include <cstdint>

#include "core/model_layout.h"
#include "core/weight_source.h"
#include "core/workers.h"
#include "eps/group_memory.h"

namespace l2l::eps {

// Writes the masters of all parameters of `group`: from `source`, which may be null, or where it has none at random.
// Normals by Box and Muller (1958) on Philox words. Throws what the source throws.
void set_initial_weights(GroupMemory& memory, const GroupSpec& group, std::uint64_t seed, const WeightSource* source,
                         Workers& workers);

}  // namespace l2l::eps
