// Orders the local search begins with.
#pragma once

#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

// Blocks sorted in several ways by size, by how much they meet, by the bytes alive around them and by time, without
// repetition. One stream: "around" is the largest live load of their lifetime; several: their size and that of all they
// meet.
std::vector<std::vector<Index>> local_orders(const Blocks& blocks);

}  // namespace l2l::compiler::memory
