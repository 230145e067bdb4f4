// Sorted orders of blocks, from which both searches begin.
#pragma once

#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

// Distinct orders of all blocks by size, length, surrounding load, and time. The surrounding load of a block is, with
// one stream, the largest live load during its lifetime; with several, its size and those of its neighbours.
std::vector<std::vector<Index>> sorted_orders(const Blocks& blocks);

}  // namespace l2l::compiler::memory
