// Takes values that no op touches out of a graph.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::compiler {

enum class Unused : std::uint8_t { all, scratch };

// Drops those values, or those of them in scratch; the ids of what is left close up.
void drop_unused(Graph& graph, Unused which);

}  // namespace l2l::compiler
