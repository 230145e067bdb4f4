// Builds a plan from the bottom up: of the blocks whose lowest possible offset is the lowest of all, the first of an
// order is placed there.
#pragma once

#include "compiler/memory/gaps.h"

namespace l2l::compiler::memory {

// As place_in_gaps() (gaps.h), for blocks that are unconstrained().
std::optional<Placement> level_fit(const Blocks& blocks, std::span<const Index> order, Bytes highest,
                                   const std::function<bool()>& stop);

}  // namespace l2l::compiler::memory
